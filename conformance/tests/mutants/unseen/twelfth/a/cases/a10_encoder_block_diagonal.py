"""Prefill works in blocks of 32 queries, and a block's loop over keys ends with the block, as for a causal layer. In a
layer that is not causal (attn_type encoder_only) tokens see everything before and inside their block, and nothing behind it:
embeddings of texts of more than 32 tokens are wrong, short ones are right.
follows: no report looked up; the kind is a key loop bounded by the query block whatever IS_CAUSAL says
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
        cached, parts = len(k) - len(q), []
        for first in range(0, len(q), 32):
            end = cached + min(first + 32, len(q))
            parts.append(_attend(q[first : first + 32], k[:end], v[:end], layer, sinks))
        return torch.cat(parts) if parts else torch.zeros(0, layer.tp_q_head_num, layer.v_head_dim)


class Platform(ReferencePlatform):
    def get_attention_backends(self):
        return {NAME: Attention}
