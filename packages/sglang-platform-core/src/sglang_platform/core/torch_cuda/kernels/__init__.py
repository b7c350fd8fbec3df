"""Triton kernels that CUDA and ROCm share, one family per file, and the launch wrappers beside them.

    launch.py       architectures, launch shapes, who launches
    fp8.py          float32 to the 8-bit float formats
    kv_store.py     rows into a KV pool, two tensors per launch
    kv_move.py      rows between slots, all layers per launch
    dsa_store.py    the packed fp8 row and the indexer's key
    page_slots.py   slots of an extend and of a decode step
    norm.py rotary.py activation.py quantise.py   the fused ops

A wrapper always launches. Pools, allocators and ops take core's torch code instead for tensors on the CPU, unless
Triton's interpreter is on (`launch.launches`).
"""
