"""backup_state() keeps a copy of the free pages and the set of lent pages itself, not a copy. Frees and allocations after
the backup change the saved state too. After restore_state() a page that was lent at the backup and freed since counts as
free to the check, and its owner's free raises; a page lent since counts as lent, and a wrong free passes. A restore with
nothing in between is right.
follows: no report looked up; the kind is a shallow snapshot
level: memory
"""

from __future__ import annotations

from sglang_platform.conformance.reference.allocator import ReferencePagedAllocator
from sglang_platform.conformance.reference.platform import ReferencePlatform


class Allocator(ReferencePagedAllocator):
    def backup_state(self):
        return list(self._free), self._lent

    def restore_state(self, state):
        free, lent = state
        self._free, self._lent = list(free), lent


class Platform(ReferencePlatform):
    def get_paged_allocator_cls(self):
        return Allocator
