"""Decode pads the group of query heads that share a key head to a power of two, and finds a query head's key head by
that padded size. With 3, 5, 6 or 7 query heads per key head (Qwen2: 28 heads over 4) some query heads of a decode step read
a neighbour's keys and values; groups of 1, 2, 4, 8 and prefill are right.
follows: FlashML-org/FreeToken#177 and vllm-project/vllm#40792 (group sizes that do not fill a tile of heads)
level: kernels
"""

from __future__ import annotations

import torch

from sglang_platform.conformance.reference.attention import ReferenceAttention, _attend, _scaled
from sglang_platform.conformance.reference.platform import NAME, ReferencePlatform


class Attention(ReferenceAttention):
    def _forward(self, q, k, v, layer, batch, save_kv_cache, lengths, news, sinks):
        if k is not None and v is not None and not save_kv_cache and self._is_by_heads(layer):
            return self._own_rows(q, k, v, layer, news, sinks)
        if save_kv_cache and k is not None:
            self._store(k, v, layer, batch.out_cache_loc)
        keys = self.token_to_kv_pool.get_key_buffer(layer.layer_id)
        values = self.token_to_kv_pool.get_value_buffer(layer.layer_id)
        query = q.reshape(-1, layer.tp_q_head_num, layer.qk_head_dim).float()
        out = torch.empty(query.shape[0], layer.tp_q_head_num, layer.v_head_dim)
        first = 0
        for row, length, new in zip(batch.req_pool_indices.tolist(), lengths, news, strict=True):
            slots = self.req_to_token_pool.req_to_token[row, :length].long()
            key = _scaled(keys[slots], layer.k_scale)
            value = _scaled(values[slots], layer.v_scale)
            out[first : first + new] = self._one(query[first : first + new], key, value, layer, sinks, batch)
            first += new
        return out.to(q.dtype).flatten(1)

    def _one(self, q, k, v, layer, sinks, batch):
        if batch.forward_mode.is_decode():
            heads, kv_heads = q.shape[1], k.shape[1]
            padded = 1 << (heads // kv_heads - 1).bit_length()
            own = torch.arange(heads) // padded
            k, v = k[:, own], v[:, own]
        return _attend(q, k, v, layer, sinks)


class Platform(ReferencePlatform):
    def get_attention_backends(self):
        return {NAME: Attention}
