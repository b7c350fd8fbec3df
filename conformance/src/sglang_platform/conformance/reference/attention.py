"""Attention over the paged cache, one request after another, in float32.

For the token at position i of a request: softmax over j <= i of scale * q_i . k_j, times v_j. The soft cap bends the
scaled scores, the window leaves out what lies more than `window` positions back, a sink adds exp(sink) to the sum of a
head's weights.
"""

from __future__ import annotations

from typing import Any

import torch

from sglang_platform.core import AttentionBackend

__all__ = ["ReferenceAttention"]


class ReferenceAttention(AttentionBackend):
    """MHA, GQA, MQA and MLA, in the absorbed form (one key head, whose first columns are the values) over the cache,
    and by heads over the rows of a prefill that has no prefix."""

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:
        """Nothing to allocate: the batch's own tensors are all that is read."""

    def forward_decode(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: Any,
        forward_batch: Any,
        save_kv_cache: bool = True,
        **kwargs: Any,
    ) -> torch.Tensor:
        lengths = forward_batch.seq_lens.tolist()
        news = [1] * len(lengths)
        return self._forward(q, k, v, layer, forward_batch, save_kv_cache, lengths, news, kwargs.get("sinks"))

    def forward_extend(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: Any,
        forward_batch: Any,
        save_kv_cache: bool = True,
        **kwargs: Any,
    ) -> torch.Tensor:
        lengths = forward_batch.seq_lens.tolist()
        news = forward_batch.extend_seq_lens.tolist()
        return self._forward(q, k, v, layer, forward_batch, save_kv_cache, lengths, news, kwargs.get("sinks"))

    def _forward(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: Any,
        batch: Any,
        save_kv_cache: bool,
        lengths: list[int],
        news: list[int],
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
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
            out[first : first + new] = _attend(query[first : first + new], key, value, layer, sinks)
            first += new
        return out.to(q.dtype).flatten(1)

    def _is_by_heads(self, layer: Any) -> bool:
        """Whether a latent pool's rows are not what this layer's queries meet."""
        pool = self.token_to_kv_pool
        return (
            hasattr(pool, "kv_lora_rank") and layer.qk_head_dim != pool.kv_lora_rank + pool.qk_rope_head_dim
        )

    def _own_rows(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        layer: Any,
        news: list[int],
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        query = q.float().reshape(-1, layer.tp_q_head_num, layer.qk_head_dim)
        key = k.float().reshape(-1, layer.tp_k_head_num, layer.qk_head_dim)
        value = v.float().reshape(-1, layer.tp_v_head_num, layer.v_head_dim)
        parts = zip(query.split(news), key.split(news), value.split(news), strict=True)
        return torch.cat([_attend(*part, layer, sinks) for part in parts]).to(q.dtype).flatten(1)

    def _store(self, k: torch.Tensor, v: torch.Tensor | None, layer: Any, loc: torch.Tensor) -> None:
        k = k.reshape(-1, layer.tp_k_head_num, layer.qk_head_dim)
        if hasattr(self.token_to_kv_pool, "kv_lora_rank"):
            self.token_to_kv_pool.set_kv_buffer(layer, loc, k, None)
            return
        assert v is not None
        v = v.reshape(-1, layer.tp_v_head_num, layer.v_head_dim)
        self.token_to_kv_pool.set_kv_buffer(layer, loc, k, v, layer.k_scale, layer.v_scale)


def _scaled(rows: torch.Tensor, scale: Any) -> torch.Tensor:
    return rows.float() if scale is None else rows.float() * scale


def _attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, layer: Any, sinks: torch.Tensor | None
) -> torch.Tensor:
    """q [m, Hq, D], k [n, Hk, D], v [n, Hk, Dv]; the queries are those of the last m positions -> [m, Hq, Dv]."""
    m, heads, _ = q.shape
    n, kv_heads, _ = k.shape
    k = k.repeat_interleave(heads // kv_heads, dim=1)
    v = v.repeat_interleave(heads // kv_heads, dim=1)
    scores = torch.einsum("ihd,jhd->hij", q, k) * layer.scaling
    if layer.logit_cap:
        scores = layer.logit_cap * torch.tanh(scores / layer.logit_cap)
    position = torch.arange(n - m, n)[:, None]
    other = torch.arange(n)[None, :]
    hidden = other > position
    if getattr(layer.attn_type, "value", None) == "encoder_only":
        hidden = torch.zeros_like(hidden)
    window = layer.sliding_window_size
    if window is not None and window >= 0:
        hidden = hidden | (other < position - window)
    scores = scores.masked_fill(hidden, float("-inf"))
    if sinks is not None:
        sink = sinks.float().reshape(heads, 1, 1).expand(heads, m, 1)
        weights = torch.softmax(torch.cat((scores, sink), dim=-1), dim=-1)[..., :n]
    else:
        weights = torch.softmax(scores, dim=-1)
    return torch.einsum("hij,jhd->ihd", weights, v)
