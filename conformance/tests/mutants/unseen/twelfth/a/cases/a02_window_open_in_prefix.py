"""In a chunked prefill the sliding window is applied exactly among the chunk's own tokens, but the cached prefix is cut
once for the whole chunk, where its first token's window begins: later tokens of the chunk see prefix tokens that have left
their window. Whole prompts without a prefix, chunks of one token and decode are right.
follows: pytorch/executorch#21857 (over-attention in chunked prefill)
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
        window, m, n = layer.sliding_window_size, q.shape[0], k.shape[0]
        if window is None or window < 0 or m == n:
            return _attend(q, k, v, layer, sinks)
        heads = q.shape[1]
        k, v = (rows.repeat_interleave(heads // rows.shape[1], dim=1) for rows in (k, v))
        scores = torch.einsum("ihd,jhd->hij", q, k) * layer.scaling
        if layer.logit_cap:
            scores = layer.logit_cap * torch.tanh(scores / layer.logit_cap)
        position, other = torch.arange(n - m, n)[:, None], torch.arange(n)[None, :]
        begin = torch.where(other < n - m, torch.full_like(position, n - m) - window, position - window)
        hidden = other < begin
        if getattr(layer.attn_type, "value", None) != "encoder_only":
            hidden = hidden | (other > position)
        scores = scores.masked_fill(hidden, float("-inf"))
        if sinks is not None:
            scores = torch.cat((scores, sinks.float().reshape(heads, 1, 1).expand(heads, m, 1)), dim=-1)
        return torch.einsum("hij,jhd->ihd", torch.softmax(scores, dim=-1)[..., :n], v)


class Platform(ReferencePlatform):
    def get_attention_backends(self):
        return {NAME: Attention}
