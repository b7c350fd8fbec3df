"""What a release of the host still assumes of CUDA, read from its sources: `sglang-platform host assumptions`.

    site       one place, and how it stands           words      names of devices, of CUDA's packages, of gates
    off_cuda   what a condition is off CUDA           reading    one module: its places, its functions, who names whom
    places     which expression is such a place       settings   which attributes and functions hold a server argument
    reach      what a place is reached from           carried    what the seams answer for
    features   the feature that a module belongs to   survey     one release, all of it
    table      the survey as text and JSON            page       several releases as a page of the documentation

Nothing of the host is imported or run. What a device of another make meets is told for one that the host does not know
by name, and that does not launch Triton kernels.
"""
