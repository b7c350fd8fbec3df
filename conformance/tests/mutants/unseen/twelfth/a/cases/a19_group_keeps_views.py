"""Inside a free group the slots are kept as they were handed in, without a copy. The scheduler frees views of the request
table, and writes the table before the group ends: the pages of the new content are freed, and those of the old are lost.
Frees outside a group, and of tensors that nobody writes to, are right.
follows: SGLang's own _copy_for_free_group ("take ownership before a caller can mutate a deferred tensor view")
level: memory
"""

from __future__ import annotations

from sglang_platform.conformance.reference.allocator import ReferencePagedAllocator
from sglang_platform.conformance.reference.platform import ReferencePlatform


class Allocator(ReferencePagedAllocator):
    def free(self, free_index):
        if self.free_group is not None and free_index.numel():
            self.free_group.append(free_index)
            return
        super().free(free_index)


class Platform(ReferencePlatform):
    def get_paged_allocator_cls(self):
        return Allocator
