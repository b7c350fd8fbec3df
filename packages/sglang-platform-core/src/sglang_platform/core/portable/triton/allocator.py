"""The paged allocator for devices that Triton compiles for: core's, with its two computations as Triton kernels."""

from __future__ import annotations

from typing import ClassVar

import torch

from sglang_platform.core.counters import counter
from sglang_platform.core.memory.paged import PagedTokenToKVPoolAllocator
from sglang_platform.core.portable.triton.launch import ShapesOf, launches, portable_shapes
from sglang_platform.core.portable.triton.page_slots import decode_slots, extend_slots

__all__ = ["TritonPagedAllocator"]

_extends = counter("triton.paged_allocator.extends")
_decodes = counter("triton.paged_allocator.decodes")


class TritonPagedAllocator(PagedTokenToKVPoolAllocator):
    """Core keeps the free list; each `alloc_extend` and `alloc_decode` is one launch, without a wait for the device.

    On the CPU core's torch operations serve.
    """

    shapes_of: ClassVar[ShapesOf] = staticmethod(portable_shapes)
    """The launch shapes on a device; a package's allocator overrides it with those of its records."""

    def _extend_kernel(
        self,
        prefix_lens: torch.Tensor,
        seq_lens: torch.Tensor,
        last_loc: torch.Tensor,
        free_pages: torch.Tensor,
        out_indices: torch.Tensor,
    ) -> None:
        if not launches(out_indices):
            super()._extend_kernel(prefix_lens, seq_lens, last_loc, free_pages, out_indices)
            return
        launch = type(self).shapes_of(out_indices.device).allocate
        extend_slots(
            prefix_lens, seq_lens, last_loc, free_pages, out_indices, page_size=self.page_size, launch=launch
        )
        _extends.add()

    def _decode_kernel(
        self,
        seq_lens: torch.Tensor,
        last_loc: torch.Tensor,
        free_pages: torch.Tensor,
        out_indices: torch.Tensor,
    ) -> None:
        if not launches(out_indices):
            super()._decode_kernel(seq_lens, last_loc, free_pages, out_indices)
            return
        launch = type(self).shapes_of(out_indices.device).allocate
        decode_slots(seq_lens, last_loc, free_pages, out_indices, page_size=self.page_size, launch=launch)
        _decodes.add()
