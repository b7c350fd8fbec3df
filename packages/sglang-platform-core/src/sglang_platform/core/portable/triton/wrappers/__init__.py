"""Launches by the records of a package, and the launch wrapper around the kernel that it writes for its own hardware.

Arguments, grids and outputs are the same on every device and are written here. The jitted kernel is handed in, and so
is the `Hardware` whose records say how it is launched: `partial(paged_decode, hardware=HARDWARE, decode_kernel=...)`.

    record.py hardware.py   how a kernel is launched on an architecture; which 8-bit formats the kernels know
    decode.py      the wrapper
    stored_kv.py   a paged cache as the attention kernels take it
    declared.py    how each kernel is checked without a device
"""
