"""The launch wrappers around kernels that a package writes for its own hardware.

Arguments, grids and outputs are the same on every device and are written here. The jitted kernel is handed in, and so
is the `Hardware` whose records say how it is launched: `partial(store_pair, hardware=HARDWARE, store_pair_kernel=...)`.

    record.py hardware.py   how a kernel is launched on an architecture; which 8-bit formats the kernels know
    kv_store.py rotary_store.py dsa_store.py quantise.py decode.py extend.py dsa_index.py   one wrapper each
    stored_kv.py   for three of them
    declared.py   how each is checked without a device
"""
