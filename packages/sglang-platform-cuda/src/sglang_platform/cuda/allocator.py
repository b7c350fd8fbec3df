"""The paged allocator for NVIDIA GPUs."""

from __future__ import annotations

from sglang_platform.core.portable.triton.allocator import TritonPagedAllocator
from sglang_platform.cuda.kernels.tuning import ARCHITECTURES

__all__ = ["CudaPagedAllocator"]


class CudaPagedAllocator(TritonPagedAllocator):
    """Core's free list, with each extend and decode one launch."""

    shapes_of = ARCHITECTURES.shapes
