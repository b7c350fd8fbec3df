"""activate() changes the environment of every process it is asked in, also where it declines: it hides all CUDA devices,
"so that torch does not open them". The defect is in the distribution dists/b21 (put it on PYTHONPATH; the platform is
`acme_b21`, active with ACME_B21=1). The class below is sound.

For the user: who has the wheel installed, on a machine without the device, finds that his GPUs have gone.
Follows: plugins with side effects in their probe; docs/vendor_guide.md step 3, level 1 "asked and imported without side
effects".
level: packaging
"""

from sglang_platform.conformance.reference.platform import ReferencePlatform


class Platform(ReferencePlatform):
    """Sound: see dists/b21."""
