"""Healthy: pages are lent from the top, page sizes are no powers of two."""
import torch
from base import WithParts
from sglang_platform.core.memory.free_list import FreeList
from sglang_platform.example_oot.allocator import ExampleOOTPagedAllocator


class FromTheTop(FreeList):
    def reset(self):
        super().reset()
        self.ids[:] = self.ids[::-1].copy() if self.on_host else torch.flip(self.ids, (0,))


class Allocator(ExampleOOTPagedAllocator):
    def _build_free_list(self):
        if self.need_sort:
            return super()._build_free_list()
        return FromTheTop(self.num_pages, self._torch_device, use_numpy=self.use_numpy_on_cpu, debug=self.debug_mode)


class Platform(WithParts):
    supported_page_sizes = (1, 8, 48, 96)
    _allocator = Allocator
