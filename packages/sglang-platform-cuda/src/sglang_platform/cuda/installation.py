"""Checks from metadata alone whether the installed torch fits an NVIDIA GPU and its driver."""

from __future__ import annotations

from sglang_platform.core import PlatformUnavailable
from sglang_platform.core.portable.torch.build import torch_build

__all__ = ["why_unfit"]

_TORCH = "install a CUDA build of torch: docs/installation.md, NVIDIA"


def why_unfit(driver: int | None) -> PlatformUnavailable | None:
    """What is missing or of the wrong build, and how to fix it; None if everything fits.

    driver: the newest CUDA it supports, 1000 * major + 10 * minor, or None if unknown. CUDA runs on a
    driver of its own major version or a newer one.
    """
    build = torch_build()
    if build is None:
        return PlatformUnavailable("torch is not installed", fix=_TORCH)
    if build.hip is not None:
        return PlatformUnavailable(
            f"torch {build.version} is a ROCm build, which drives AMD GPUs only", fix=_TORCH
        )
    if build.cuda is None:
        return PlatformUnavailable(f"torch {build.version} was built without CUDA", fix=_TORCH)
    if driver is not None and driver // 1000 < int(build.cuda.partition(".")[0]):
        return PlatformUnavailable(
            f"the NVIDIA driver serves CUDA {driver // 1000}.{driver % 1000 // 10}, and torch {build.version} was "
            f"built for CUDA {build.cuda}",
            fix="update the driver, or install a torch for the older CUDA",
        )
    return None
