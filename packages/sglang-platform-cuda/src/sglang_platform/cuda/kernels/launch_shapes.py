"""How core's portable kernels are launched on an NVIDIA GPU."""

from __future__ import annotations

import torch

from sglang_platform.core.portable.triton.architecture import LaunchShapes
from sglang_platform.cuda.kernels.tuning import ARCHITECTURES

__all__ = ["shapes_of"]


def shapes_of(device: torch.device) -> LaunchShapes:
    """As the record of the device's architecture says."""
    return ARCHITECTURES.of(device).shapes
