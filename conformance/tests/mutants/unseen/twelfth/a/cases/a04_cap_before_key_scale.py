"""With an 8-bit cache the factor of the stored keys is multiplied to the scores after the logit soft cap, not before: the
cap bends the scores of the stored numbers. Only layers with a soft cap and a k_scale other than 1 (Gemma-2 or Grok with
--kv-cache-dtype fp8) are wrong; each feature alone is right.
follows: kindred to ROCm/rocm-libraries#12229 (a term at the wrong scale under a soft cap)
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
        if not layer.logit_cap or layer.k_scale is None:
            return _attend(q, k, v, layer, sinks)
        scale = float(layer.k_scale)
        bent = copy.copy(layer)
        # cap * tanh(s / cap) * scale, told to the common path as a cap of cap * scale over scores times scale
        bent.logit_cap = layer.logit_cap * scale
        return _attend(q, k, v, bent, sinks)


class Platform(ReferencePlatform):
    def get_attention_backends(self):
        return {NAME: Attention}
