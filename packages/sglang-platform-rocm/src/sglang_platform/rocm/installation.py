"""Checks from metadata alone whether the installed torch and Triton fit an AMD GPU.

The package declares no dependency on torch or Triton: the builds for AMD GPUs are AMD's, and pip would replace them
with the builds for NVIDIA GPUs, or install those beside them.
"""

from __future__ import annotations

from packaging.version import Version

from sglang_platform.core import PlatformUnavailable
from sglang_platform.core.installed.distributions import installed_version
from sglang_platform.core.portable.torch.build import torch_build

__all__ = ["why_unfit"]

OLDEST_TORCH = Version("2.11")
OLDEST_TRITON = Version("3.6")
_OF_ROCM = ("triton-rocm", "pytorch-triton-rocm")
"""The names of Triton's distribution for torch's ROCm wheels. AMD's images install it as `triton`."""

_TORCH = "install a ROCm build of torch, or start from an environment with SGLang on ROCm: docs/installation.md, AMD"


def why_unfit() -> PlatformUnavailable | None:
    """What is missing, of the wrong build or conflicting, and how to fix it; None if everything fits."""
    build = torch_build()
    if build is None:
        return PlatformUnavailable("torch is not installed", fix=_TORCH)
    if build.hip is None:
        kind = "a CUDA build" if build.cuda is not None else "a CPU build"
        return PlatformUnavailable(f"torch {build.version} is {kind}, which drives no AMD GPU", fix=_TORCH)
    if Version(Version(build.version).base_version) < OLDEST_TORCH:
        return PlatformUnavailable(f"torch {build.version} is older than {OLDEST_TORCH}", fix=_TORCH)
    upstream = installed_version("triton")
    of_rocm = {name: found for name in _OF_ROCM if (found := installed_version(name)) is not None}
    for name, found in of_rocm.items():
        if upstream is not None:
            return PlatformUnavailable(
                f"triton {upstream} and {name} {found} are both installed, into one folder: what is left of either is "
                "a mixture",
                fix=f"pip uninstall triton {name}, then install {name}=={found} again",
            )
    if upstream is None and not of_rocm:
        return PlatformUnavailable(
            "Triton is not installed", fix=f"install the Triton that torch {build.version} was released with"
        )
    name, found = next(iter(of_rocm.items()), ("triton", upstream or ""))
    if Version(Version(found).base_version) < OLDEST_TRITON:
        return PlatformUnavailable(
            f"{name} {found} is older than {OLDEST_TRITON}, with which the kernels are checked",
            fix="install a newer ROCm build of torch, which brings one",
        )
    return None
