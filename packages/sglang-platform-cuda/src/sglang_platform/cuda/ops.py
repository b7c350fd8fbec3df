"""The fused ops on NVIDIA GPUs: core's kernels, launched as this package's records say."""

from __future__ import annotations

from sglang_platform.core.portable.triton import ops
from sglang_platform.cuda.kernels.hardware import rotate_and_store
from sglang_platform.cuda.kernels.tuning import ARCHITECTURES

__all__ = ["register"]


def register(dispatch_key: str) -> None:
    """Serve core's fused ops on platforms with this key."""
    ops.register(dispatch_key, ARCHITECTURES.shapes, rotate_and_store)
