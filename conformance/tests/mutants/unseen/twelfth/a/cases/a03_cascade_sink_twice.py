"""Requests of a decode batch that share the first pages of their prompts (a prefix-cache hit) are computed in two parts,
the shared prefix and the rest, and merged by their sums. Each part adds the sink, so that it counts twice in the merged
denominator. Without sinks, or where no two requests share slots, or for one request alone, results are right.
follows: ROCm/rocm-libraries#12227 (the sink logit added once per split)
level: kernels
"""

from __future__ import annotations

import torch

from sglang_platform.conformance.reference.attention import ReferenceAttention, _attend, _scaled
from sglang_platform.conformance.reference.platform import NAME, ReferencePlatform


class Attention(ReferenceAttention):
    def forward_decode(self, q, k, v, layer, forward_batch, save_kv_cache=True, **kwargs):
        sinks, window = kwargs.get("sinks"), layer.sliding_window_size
        table = self.req_to_token_pool.req_to_token
        rows, lengths = forward_batch.req_pool_indices.long(), forward_batch.seq_lens.tolist()
        shared = self._in_common(table, rows, min(lengths) - 1) if len(lengths) > 1 else 0
        if not shared or (window is not None and window >= 0) or self._is_by_heads(layer):
            return super().forward_decode(q, k, v, layer, forward_batch, save_kv_cache, **kwargs)
        if save_kv_cache and k is not None:
            self._store(k, v, layer, forward_batch.out_cache_loc)
        keys = self.token_to_kv_pool.get_key_buffer(layer.layer_id)
        values = self.token_to_kv_pool.get_value_buffer(layer.layer_id)
        query = q.reshape(-1, layer.tp_q_head_num, layer.qk_head_dim).float()
        out = []
        for index, (row, length) in enumerate(zip(rows.tolist(), lengths)):
            parts = []
            for part in (slice(0, shared), slice(shared, length)):
                slots = table[row, part].long()
                key, value = _scaled(keys[slots], layer.k_scale), _scaled(values[slots], layer.v_scale)
                parts.append(self._part(query[index], key, value, layer, sinks))
            weights = torch.softmax(torch.stack([sums for _, sums in parts]), dim=0)
            out.append(sum(weight[:, None] * each for weight, (each, _) in zip(weights, parts)))
        return torch.stack(out).to(q.dtype).flatten(1)

    def _in_common(self, table, rows, most):
        same = (table[rows, :most] == table[rows[:1], :most]).all(0).long()
        count = int(same.cumprod(0).sum())
        return count - count % self.token_to_kv_pool.page_size

    def _part(self, q, k, v, layer, sinks):
        """Attention of one query [heads, D] over some keys, with the logarithm of its denominator [heads]."""
        k, v = (each.repeat_interleave(len(q) // each.shape[1], dim=1) for each in (k, v))
        scores = torch.einsum("hd,jhd->hj", q, k) * layer.scaling
        if layer.logit_cap:
            scores = layer.logit_cap * torch.tanh(scores / layer.logit_cap)
        if sinks is not None:
            scores = torch.cat((scores, sinks.float().reshape(-1, 1)), dim=1)
        sums = torch.logsumexp(scores, dim=1)
        return torch.einsum("hj,jhd->hd", torch.exp(scores - sums[:, None])[:, : len(k)], v), sums


class Platform(ReferencePlatform):
    def get_attention_backends(self):
        return {NAME: Attention}
