"""The factors of an 8-bit cache are read once, from the first layer that is computed, and kept on the backend. Every other
layer stores by its own scales and is read back by those of the first: a checkpoint with calibrated scales per layer answers
nonsense, one without scales or with equal ones is right.
follows: no report looked up; the kind is per-layer scales cached on the backend
level: kernels
"""

from __future__ import annotations

import torch

from sglang_platform.conformance.reference.attention import ReferenceAttention, _attend, _scaled
from sglang_platform.conformance.reference.platform import NAME, ReferencePlatform


class Attention(ReferenceAttention):
    def __init__(self, model_runner):
        super().__init__(model_runner)
        self._factors = None

    def _forward(self, q, k, v, layer, batch, save_kv_cache, lengths, news, sinks):
        if k is not None and v is not None and not save_kv_cache and self._is_by_heads(layer):
            return self._own_rows(q, k, v, layer, news, sinks)
        if save_kv_cache and k is not None:
            self._store(k, v, layer, batch.out_cache_loc)
        keys = self.token_to_kv_pool.get_key_buffer(layer.layer_id)
        values = self.token_to_kv_pool.get_value_buffer(layer.layer_id)
        if self._factors is None:
            self._factors = layer.k_scale, layer.v_scale
        query = q.reshape(-1, layer.tp_q_head_num, layer.qk_head_dim).float()
        out = torch.empty(query.shape[0], layer.tp_q_head_num, layer.v_head_dim)
        first = 0
        for row, length, new in zip(batch.req_pool_indices.tolist(), lengths, news, strict=True):
            slots = self.req_to_token_pool.req_to_token[row, :length].long()
            key = _scaled(keys[slots], self._factors[0])
            value = _scaled(values[slots], self._factors[1])
            out[first : first + new] = _attend(query[first : first + new], key, value, layer, sinks)
            first += new
        return out.to(q.dtype).flatten(1)


class Platform(ReferencePlatform):
    def get_attention_backends(self):
        return {NAME: Attention}
