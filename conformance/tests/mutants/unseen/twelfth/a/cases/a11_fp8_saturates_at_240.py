"""Rows that go into a float8_e4m3fn cache are clamped to 240, the largest number of the other format of that name
(e4m3fnuz), where e4m3fn holds up to 448. Numbers between 240 and 448 after scaling are stored too small: heads with outliers
lose accuracy, others and e5m2 are exact.
follows: vllm-project/vllm#50467 (240.0 on e4m3fn platforms)
level: memory
"""

from __future__ import annotations

import torch

from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.conformance.reference.pools import ReferenceMHAPool
from sglang_platform.core.contract.types import kv_pool_kind


class Pool(ReferenceMHAPool):
    def set_kv_buffer(self, layer, loc, cache_k, cache_v, k_scale=None, v_scale=None, layer_id_override=None):
        if self.dtype == torch.float8_e4m3fn:
            cache_k, k_scale = self._within(cache_k, k_scale)
            cache_v, v_scale = self._within(cache_v, v_scale)
        super().set_kv_buffer(layer, loc, cache_k, cache_v, k_scale, v_scale, layer_id_override)

    def _within(self, rows, scale):
        if rows.dtype == self.dtype:
            return rows, scale
        rows = rows.float() if scale is None else rows.float() / scale
        return rows.clamp(-240.0, 240.0), None


class Platform(ReferencePlatform):
    def get_kv_pool_cls(self, *, kind):
        return Pool if kv_pool_kind(kind) == "mha" else super().get_kv_pool_cls(kind=kind)
