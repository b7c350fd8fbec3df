"""move_kv_cache() of the sparse (DSA) pool moves the rows and the indexer's keys, and leaves the scales of those keys,
which lie behind all keys of a page. After speculative decoding has closed its gaps, the indexer weighs moved keys by scales
of other tokens, and selects other tokens. Keys whose scales are equal are right.
follows: no report looked up; the kind is a buffer beside the rows that a move forgets
level: memory
"""

from __future__ import annotations

from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.conformance.reference.dsa_pool import ReferenceDSAPool
from sglang_platform.core.contract.types import kv_pool_kind

from sglang_platform.conformance.reference.pools import ReferenceMLAPool


class Pool(ReferenceDSAPool):
    def _move_kv_cache_impl(self, tgt_loc, src_loc):
        ReferenceMLAPool._move_kv_cache_impl(self, tgt_loc, src_loc)
        cache = self.index_key_cache
        source, target = ((loc // cache.page_size, loc % cache.page_size) for loc in (src_loc, tgt_loc))
        for layer, buffer in enumerate(cache.buffer):
            if buffer.shape[0]:
                keys = cache.keys(layer)
                keys[target] = keys[source]


class Platform(ReferencePlatform):
    def get_kv_pool_cls(self, *, kind):
        return Pool if kv_pool_kind(kind) == "dsa" else super().get_kv_pool_cls(kind=kind)
