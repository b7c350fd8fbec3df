"""get_mla_kv_buffer() takes a shortcut where the slots lie side by side: it answers a view of the buffer, not the copy
that it must. A prefill that has fetched its cached prefix and then stores new rows into slots that were given to another
request sees its prefix change under it. Scattered slots and another dst_dtype are copied.
follows: no report looked up; the kind is a fast path by narrow for index_select
level: memory
"""

from __future__ import annotations

from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.conformance.reference.pools import ReferenceMLAPool
from sglang_platform.core.contract.types import kv_pool_kind


class Pool(ReferenceMLAPool):
    def get_mla_kv_buffer(self, layer, loc, dst_dtype=None):
        loc = loc.reshape(-1)
        count = loc.numel()
        if count < 2 or int(loc[-1]) - int(loc[0]) != count - 1 or bool((loc.diff() != 1).any()):
            return super().get_mla_kv_buffer(layer, loc, dst_dtype)
        self._wait(layer.layer_id)
        first = int(loc[0])
        latent, rotated = self._parts(self.kv_buffer[self._layer(layer.layer_id)][first : first + count])
        dtype = dst_dtype or self.dtype
        return latent.to(dtype), rotated.to(dtype) if self.qk_rope_head_dim else None


class Platform(ReferencePlatform):
    def get_kv_pool_cls(self, *, kind):
        return Pool if kv_pool_kind(kind) == "mla" else super().get_kv_pool_cls(kind=kind)
