"""available_size() counts the pages that can be lent at once, and not those that wait to be sorted in (need_sort, set for disaggregation).
The scheduler then finds a leak while idle (invariant_checker.py:90) and retracts too early (common.py:307)."""
from base import WithParts
from sglang_platform.example_oot.allocator import ExampleOOTPagedAllocator


class Allocator(ExampleOOTPagedAllocator):
    def available_size(self):
        return len(self.free_pages) * self.page_size


class Platform(WithParts):
    _allocator = Allocator
