"""clear() refills the free list that was made at first: after resize() (kv_pool_runtime.py:154) the old number of pages is lent."""
from base import WithParts
from sglang_platform.example_oot.allocator import ExampleOOTPagedAllocator


class Allocator(ExampleOOTPagedAllocator):
    def clear(self):
        self.free_group = None
        self.free_page_ids_group = []
        self._free_list.reset()


class Platform(WithParts):
    _allocator = Allocator
