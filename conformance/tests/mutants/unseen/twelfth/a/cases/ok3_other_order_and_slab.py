"""Healthy: the allocator lends pages from the top downwards and what was freed last of all (with need_sort in ascending
order, as that asks), and host memory is cut from page-aligned pieces of slabs that are made when they are needed.
level: memory
"""

from __future__ import annotations

import math

import torch

from sglang_platform.conformance.reference.allocator import ReferencePagedAllocator
from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core.memory.host_memory import HostMemory

ALIGNED = 4096
SLAB = 16 << 20


class Allocator(ReferencePagedAllocator):
    def clear(self):
        super().clear()
        if not self.need_sort:
            self._free.reverse()

    def _give_back_pages(self, pages):
        before = list(self._free)
        super()._give_back_pages(pages)  # checks them
        if not self.need_sort:
            self._free = before + list(pages)


class Memory(HostMemory):
    def __init__(self, pins):
        super().__init__(pins)
        self._slab, self._taken = None, 0

    def allocate(self, shape, dtype):
        size = math.prod(shape) * dtype.itemsize
        if size > SLAB:
            return super().allocate(shape, dtype)
        if self._slab is None or self._taken + size > self._slab.numel():
            raw = torch.empty(SLAB + ALIGNED, dtype=torch.uint8, pin_memory=self.pins)
            self._slab, self._taken = raw[-raw.data_ptr() % ALIGNED :][:SLAB], 0
        piece = self._slab[self._taken : self._taken + size]
        self._taken += -(-size // ALIGNED) * ALIGNED
        return piece.view(dtype).view(tuple(shape))


class Platform(ReferencePlatform):
    def get_paged_allocator_cls(self):
        return Allocator

    def get_host_memory_cls(self):
        return Memory
