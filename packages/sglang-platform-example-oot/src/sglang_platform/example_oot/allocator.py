"""The paged allocator: which slots a request's tokens get.

A vendor changes: `_extend_kernel` and `_decode_kernel` to run on the device; core keeps the free list.
"""

from __future__ import annotations

from typing import Any

import torch
from sglang_platform.core import PagedTokenToKVPoolAllocator, counter

_extends = counter("example_oot.paged_allocator.extends")
_decodes = counter("example_oot.paged_allocator.decodes")


class ExampleOOTPagedAllocator(PagedTokenToKVPoolAllocator):
    """Core's allocator with call counts. Its CPU kernels are already the best for this device."""

    def alloc_extend(self, *args: Any, **kwargs: Any) -> torch.Tensor | None:
        _extends.add()
        return super().alloc_extend(*args, **kwargs)

    def alloc_decode(self, *args: Any, **kwargs: Any) -> torch.Tensor | None:
        _decodes.add()
        return super().alloc_decode(*args, **kwargs)
