"""The suite's own platform: all parts, plain torch on the CPU, written to be read and to be right, not to be fast.

Every check must pass on it, and the suite is tested by breaking it one line at a time. Run the suite on it with
`--platform reference=sglang_platform.conformance.reference.platform:ReferencePlatform`.

    platform.py     declarations and factories
    device.py       identity and memory
    rows.py         rows of a KV buffer: cast, written, read as numbers
    pools.py        KV pools: MHA and MLA
    dsa_pool.py     the DSA pool, with the indexer's keys; packed_rows.py is its fp8 format
    allocator.py    the paged allocator, a list of free pages
    attention.py    attention, one request after another
    ops.py          the fused ops
    graph_runner.py decode graphs that run the model again
    communicator.py collectives of a group
    on_sglang.py    another platform, written on SGLang's classes directly; on_sglang_parts.py holds its parts

Nothing of it is shared with the oracles.
"""
