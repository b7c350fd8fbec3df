"""The paged allocator for AMD GPUs."""

from __future__ import annotations

import torch

from sglang_platform.core.portable.triton.allocator import TritonPagedAllocator
from sglang_platform.core.portable.triton.architecture import Launch
from sglang_platform.rocm.kernels.launch_shapes import shapes_of

__all__ = ["RocmPagedAllocator"]


class RocmPagedAllocator(TritonPagedAllocator):
    """Core's free list, with each extend and decode one launch."""

    def _launch(self, device: torch.device) -> Launch:
        return shapes_of(device).allocate
