"""With need_sort freed pages wait, and are sorted in when an allocation runs short. alloc() and alloc_extend() do so,
alloc_decode() does not: it answers None while available_size() says that enough is free, and the scheduler retracts running
requests, or ends with "out of memory". Without need_sort all is right.
follows: sgl-project/sglang#8133 ("fix a problem when using alloc_extend() and alloc_decode()"), #37146
level: memory
"""

from __future__ import annotations

import torch

from sglang_platform.conformance.reference.allocator import ReferencePagedAllocator
from sglang_platform.conformance.reference.platform import ReferencePlatform


class Allocator(ReferencePagedAllocator):
    def clear(self):
        super().clear()
        self._waiting = []

    def available_size(self):
        return (len(self._free) + len(self._waiting)) * self.page_size

    @property
    def release_pages(self):
        return self._tensor(self._waiting)

    @property
    def staged_pages(self):
        return [self.release_pages] if self._waiting else []

    @property
    def num_staged_pages(self):
        return len(self._waiting)

    def get_all_free_pages(self):
        return torch.cat((self.free_pages, self.release_pages))

    def merge_and_sort_free(self):
        self._free, self._waiting = sorted(self._free + self._waiting), []

    def _give_back_pages(self, pages):
        if not self.need_sort:
            super()._give_back_pages(pages)
            return
        before = list(self._free)
        super()._give_back_pages(pages)  # checks them
        self._free = before
        self._waiting = self._waiting + list(pages)

    def alloc(self, need_size):
        if need_size // self.page_size > len(self._free):
            self.merge_and_sort_free()
        return super().alloc(need_size)

    def alloc_extend(
        self, prefix_lens, prefix_lens_cpu, seq_lens, seq_lens_cpu, last_loc, extend_num_tokens, num_new_pages=None
    ):
        asked = prefix_lens, prefix_lens_cpu, seq_lens, seq_lens_cpu, last_loc, extend_num_tokens, num_new_pages
        slots = super().alloc_extend(*asked)
        if slots is None and self._waiting:
            self.merge_and_sort_free()
            slots = super().alloc_extend(*asked)
        return slots

    def backup_state(self):
        return super().backup_state(), list(self._waiting)

    def restore_state(self, state):
        super().restore_state(state[0])
        self._waiting = list(state[1])


class Platform(ReferencePlatform):
    def get_paged_allocator_cls(self):
        return Allocator
