"""For any device that Triton compiles for. Nothing here depends on a GPU: a package passes its kernels and records in.

    architecture.py   the architecture records of a package, and their lookup
    launch.py         where kernels run
    norm.py rotary.py activation.py page_slots.py top_slots.py index_key_store.py kv_move.py softmax.py   kernels
    kernels/      kernels that packages share, with their launch wrappers
    wrappers/     records of a package, and the launch wrapper around its decode kernel
    pools.py attention.py   the KV pools and the attention backend, which launch a package's kernels
    declared.py   how each kernel is checked without a device; the suite holds the launches to compile

A wrapper always launches. Pools, allocators and ops take core's torch code instead for tensors on the CPU, unless
Triton's interpreter is on (`launch.launches`).
"""
