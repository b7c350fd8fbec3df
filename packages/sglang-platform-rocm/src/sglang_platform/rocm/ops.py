"""The fused ops on AMD GPUs: core's kernels, launched as this package's records say."""

from __future__ import annotations

from sglang_platform.core.portable.triton import ops
from sglang_platform.rocm.kernels.hardware import rotate_and_store
from sglang_platform.rocm.kernels.tuning import ARCHITECTURES

__all__ = ["register"]


def register(dispatch_key: str) -> None:
    """Serve core's fused ops on platforms with this key."""
    ops.register(dispatch_key, ARCHITECTURES.shapes, rotate_and_store)
