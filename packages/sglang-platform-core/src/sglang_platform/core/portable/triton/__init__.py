"""For any device that Triton compiles for. No GPU is known here: what depends on one is handed in by its package.

    architecture.py   what a package says of an architecture, and how its records are found
    launch.py         where kernels run
    norm.py rotary.py activation.py page_slots.py top_slots.py index_key_store.py kv_move.py softmax.py   kernels
    kernels/      kernels that packages share, with their launch wrappers
    wrappers/     records of a package, and the launch wrapper around the decode kernel that it hands in
    pools.py attention.py   the KV pools and the attention backend, whose kernels a package hands in
    declared.py   how each is checked without a device; the launches that are compiled are the suite's

A wrapper always launches. Pools, allocators and ops take core's torch code instead for tensors on the CPU, unless
Triton's interpreter is on (`launch.launches`).
"""
