"""A deferred free keeps the tensor it was given, a view of the request table, which the scheduler overwrites before the group ends
(allocator/base.py:223 _copy_for_free_group: "take ownership before a caller can mutate a deferred tensor view")."""
from base import WithParts
from sglang_platform.example_oot.allocator import ExampleOOTPagedAllocator


class Allocator(ExampleOOTPagedAllocator):
    def free(self, free_index):
        if self.free_group is not None and free_index.numel():
            self.free_group.append(free_index)
            return
        super().free(free_index)


class Platform(WithParts):
    _allocator = Allocator
