"""The paged allocator for AMD GPUs."""

from __future__ import annotations

from sglang_platform.core.portable.triton.allocator import TritonPagedAllocator
from sglang_platform.rocm.kernels.tuning import ARCHITECTURES

__all__ = ["RocmPagedAllocator"]


class RocmPagedAllocator(TritonPagedAllocator):
    """Core's free list, with each extend and decode one launch."""

    shapes_of = ARCHITECTURES.shapes
