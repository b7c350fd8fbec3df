"""Decode counts the pages that a request reads from its length before the step. Where the new token is the first of a
page, that page is not read, and the token does not attend to itself: every page_size-th token of an answer is computed
without its own key. Page size 1 has a path of its own and is right.
follows: no report looked up; the kind is a block table counted before the step's token
level: kernels
"""

from __future__ import annotations

import copy

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
        page, length = self.token_to_kv_pool.page_size, len(k)
        if batch.forward_mode.is_decode() and page > 1 and length > 1:
            pages = -(-(length - 1) // page)
            seen = min(length, pages * page)
            if seen < length:
                window = layer.sliding_window_size
                if window is not None and window >= 0:
                    k, v = k[max(0, length - 1 - window) : seen], v[max(0, length - 1 - window) : seen]
                    layer = copy.copy(layer)
                    layer.sliding_window_size = -1
                else:
                    k, v = k[:seen], v[:seen]
                if not len(k):
                    return torch.zeros(1, layer.tp_q_head_num, layer.v_head_dim)
        return _attend(q, k, v, layer, sinks)


class Platform(ReferencePlatform):
    def get_attention_backends(self):
        return {NAME: Attention}
