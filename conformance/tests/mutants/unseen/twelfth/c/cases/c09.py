"""Attention over blocks of keys with a running softmax; groups of query heads meet their key head without a copy of it.

Permitted by: docs/contract.md (a device overrides "`forward_decode`, `forward_extend`, which answer contiguous rows")
and AttentionBackend.forward: how the sums are made is nowhere said. A small table of positions is kept in the module and
cleared before each step. The backend has a name of its own (SRTPlatform.get_attention_backends: "name to factory").

level: kernels
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from sglang_platform.conformance.reference.attention import ReferenceAttention
from sglang_platform.conformance.reference.platform import ReferencePlatform

_BLOCK = 192
_POSITIONS: dict[int, torch.Tensor] = {}


def _positions(n: int) -> torch.Tensor:
    if n not in _POSITIONS:
        if len(_POSITIONS) > 8:
            _POSITIONS.clear()
        _POSITIONS[n] = torch.arange(n)
    return _POSITIONS[n]


def _rows(values: torch.Tensor, scale: Any) -> torch.Tensor:
    return values.float() if scale is None else values.float() * scale


class _Running:
    """The largest score, the sum of weights and the weighted values so far."""

    def __init__(self, kv_heads: int, group: int, m: int, width: int) -> None:
        self.top = torch.full((kv_heads, group, m, 1), float("-inf"))
        self.total = torch.zeros(kv_heads, group, m, 1)
        self.values = torch.zeros(kv_heads, group, m, width)

    def add(self, scores: torch.Tensor, values: torch.Tensor) -> None:
        """scores [Hk, G, m, n]; values [Hk, 1, n, Dv]."""
        top = torch.maximum(self.top, scores.amax(dim=-1, keepdim=True))
        finite = top.masked_fill(top == float("-inf"), 0.0)
        kept, weights = torch.exp(self.top - finite), torch.exp(scores - finite)
        self.total = self.total * kept + weights.sum(dim=-1, keepdim=True)
        self.values = self.values * kept + weights @ values
        self.top = top

    def sink(self, sinks: torch.Tensor) -> None:
        top = torch.maximum(self.top, sinks)
        kept = torch.exp(self.top - top)
        self.total, self.values = self.total * kept + torch.exp(sinks - top), self.values * kept
        self.top = top


def _attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, layer: Any, sinks: torch.Tensor | None
) -> torch.Tensor:
    """q [m, Hq, D], k [n, Hk, D], v [n, Hk, Dv], all float32 -> [m, Hq, Dv]."""
    m, heads, _ = q.shape
    n, kv_heads, _ = k.shape
    group = heads // kv_heads
    q = q.transpose(0, 1).unflatten(0, (kv_heads, group))
    own = (_positions(m) + (n - m))[:, None]
    causal = getattr(layer.attn_type, "value", None) != "encoder_only"
    window = layer.sliding_window_size
    running = _Running(kv_heads, group, m, v.shape[-1])
    for start in range(0, n, _BLOCK):
        keys = k[start : start + _BLOCK].transpose(0, 1)[:, None]
        values = v[start : start + _BLOCK].transpose(0, 1)[:, None]
        scores = (q @ keys.transpose(-1, -2)) * layer.scaling
        if layer.logit_cap:
            scores = torch.tanh(scores / layer.logit_cap) * layer.logit_cap
        other = _positions(keys.shape[2]) + start
        if causal:
            scores = scores.masked_fill(other > own, float("-inf"))
        if window is not None and window >= 0:
            scores = scores.masked_fill(other < own - window, float("-inf"))
        running.add(scores, values)
    if sinks is not None:
        running.sink(sinks.float().reshape(kv_heads, group, 1, 1))
    return (running.values / running.total).flatten(0, 1).transpose(0, 1)


class _BlockwiseAttention(ReferenceAttention):
    """Where rows come from is the reference's way; what is made of them is not."""

    def init_forward_metadata_out_graph(self, forward_batch: Any, in_capture: bool = False) -> None:
        _POSITIONS.clear()

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
        table = self.req_to_token_pool.req_to_token
        out = q.new_empty(query.shape[0], layer.tp_q_head_num, layer.v_head_dim)
        end = 0
        for row, length, new in zip(batch.req_pool_indices.tolist(), lengths, news, strict=True):
            first, end = end, end + new
            if not new:
                continue
            slots = table[row, :length].long()
            key, value = _rows(keys[slots], layer.k_scale), _rows(values[slots], layer.v_scale)
            out[first:end] = _attention(query[first:end], key, value, layer, sinks).to(q.dtype)
        return out.flatten(1)

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
        return torch.cat([_attention(*part, layer, sinks) for part in parts]).to(q.dtype).flatten(1)


class Platform(ReferencePlatform):
    """The backend is called `blockwise`."""

    def get_default_attention_backend(self) -> str:
        return next(iter(self.get_attention_backends()))

    def get_attention_backends(self) -> dict[str, Callable[..., Any]]:
        return {"blockwise": _BlockwiseAttention}
