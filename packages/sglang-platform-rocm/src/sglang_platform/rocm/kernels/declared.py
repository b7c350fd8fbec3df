"""What the platform declares of its kernels: how each is checked without a device. Imports no compiler."""

from __future__ import annotations

from sglang_platform.core.portable.triton.wrappers.declared import package_kernels
from sglang_platform.rocm.kernels.tuning import ARCHITECTURES

__all__ = ["KERNELS"]

KERNELS = package_kernels(
    "sglang_platform.rocm.kernels",
    tuple(ARCHITECTURES.values()),
    ("float8_e4m3fnuz", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e5m2"),
)
