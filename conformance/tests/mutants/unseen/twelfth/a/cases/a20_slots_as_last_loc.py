"""Slots come back in the dtype of last_loc. The host reads last_loc from the request table, which is int32, so that
out_cache_loc is int32 in steps of requests that have a cache and int64 in others: it must be int64, and code that indexes or
concatenates by it fails or copies. Callers that pass int64 are served right.
follows: no report looked up; the kind is a ported allocator that mixes int32 and int64
level: memory
"""

from __future__ import annotations

from sglang_platform.conformance.reference.allocator import ReferencePagedAllocator
from sglang_platform.conformance.reference.platform import ReferencePlatform


class Allocator(ReferencePagedAllocator):
    def alloc_extend(
        self, prefix_lens, prefix_lens_cpu, seq_lens, seq_lens_cpu, last_loc, extend_num_tokens, num_new_pages=None
    ):
        slots = super().alloc_extend(
            prefix_lens, prefix_lens_cpu, seq_lens, seq_lens_cpu, last_loc, extend_num_tokens, num_new_pages
        )
        return None if slots is None else slots.to(last_loc.dtype)

    def alloc_decode(self, seq_lens, seq_lens_cpu, last_loc):
        slots = super().alloc_decode(seq_lens, seq_lens_cpu, last_loc)
        return None if slots is None else slots.to(last_loc.dtype)


class Platform(ReferencePlatform):
    def get_paged_allocator_cls(self):
        return Allocator
