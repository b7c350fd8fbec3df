"""activate() answers once: a flag of the module keeps it from "activating twice", and the second question gets None. The
defect is in the distribution dists/b22 (put it on PYTHONPATH; the platform is `acme_b22`, active with ACME_B22=1). The class
below is sound.

For the user: what asks first (a command, another library) gets the device; SGLang, which asks second in that process, is told
that there is none and serves on another platform.
Follows: run-once guards in plugins.
level: packaging
"""

from sglang_platform.conformance.reference.platform import ReferencePlatform


class Platform(ReferencePlatform):
    """Sound: see dists/b22."""
