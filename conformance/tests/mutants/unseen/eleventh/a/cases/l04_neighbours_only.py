"""free() drops repeats of a page among neighbours only (unique_consecutive avoids a sort on the device): slots of two pages that take turns
free each page twice."""
import torch
from base import WithParts
from sglang_platform.example_oot.allocator import ExampleOOTPagedAllocator


class Allocator(ExampleOOTPagedAllocator):
    def free(self, free_index):
        if free_index.numel() and self.free_group is None:
            self._release_page_ids(torch.unique_consecutive(free_index // self.page_size))
            return
        super().free(free_index)


class Platform(WithParts):
    _allocator = Allocator
