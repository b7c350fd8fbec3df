"""The places where a release of the host assumes CUDA, read from its sources: `sglang-platform host assumptions`.

    site       one place, and how it stands           words      names of devices, of CUDA's packages, of gates
    off_cuda   a condition's truth value off CUDA     reading    one module: its places and their conditions
    places     classifies one expression              features   the feature that a module belongs to
    survey     one whole release                      table      the survey as text and JSON

Nothing of the host is imported or run. The survey assumes a device that the host does not know by name and that does
not launch Triton kernels.
"""
