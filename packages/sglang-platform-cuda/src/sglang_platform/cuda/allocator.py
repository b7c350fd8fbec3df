"""The paged allocator for NVIDIA GPUs."""

from __future__ import annotations

import torch

from sglang_platform.core.portable.triton.allocator import TritonPagedAllocator
from sglang_platform.core.portable.triton.architecture import Launch
from sglang_platform.cuda.kernels.launch_shapes import shapes_of

__all__ = ["CudaPagedAllocator"]


class CudaPagedAllocator(TritonPagedAllocator):
    """Core's free list, with each extend and decode one launch."""

    def _launch(self, device: torch.device) -> Launch:
        return shapes_of(device).allocate
