"""The records of a package, and the launch wrapper around the decode kernel that it writes for its hardware.

Arguments, grids and outputs are the same on every device and are written here. A package passes in its jitted kernel
and the `Hardware` whose records hold the launch shapes: `partial(paged_decode, hardware=HARDWARE, decode_kernel=...)`.

    record.py hardware.py   how a kernel is launched on an architecture; which 8-bit formats the kernels know
    decode.py      the wrapper
    stored_kv.py   a paged cache as the attention kernels take it
    declared.py    how each kernel is checked without a device
"""
