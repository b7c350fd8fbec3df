"""Attention in float64, the context in up to four parts from the end, whose results are merged by their sums; a
function makes the backend; features are members of an enum, and soft caps and sinks are refused in words.

Permitted by: contract/attention_features.py ("A platform declares the features it computes, and must refuse a layer that
asks for another one"), SRTPlatform.get_attention_backends ("an `AttentionBackend` subclass, or a function
`(model_runner) -> backend`"), contract/values.py (a word is a str). In which order sums are made is nowhere said.

level: kernels
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from sglang_platform.conformance.reference.attention import ReferenceAttention
from sglang_platform.conformance.reference.platform import ReferencePlatform

_PARTS = 4


class _Feature(enum.StrEnum):
    """What it computes."""

    MHA = "mha"
    GQA = "gqa"
    MQA = "mqa"
    CHUNKED = "chunked_prefill"
    MIXED = "mixed_batch"
    WINDOW = "sliding_window"
    ENCODER = "encoder"
    MLA = "mla"
    EIGHT_BITS = "fp8_kv"


class _Partial(NamedTuple):
    """Values weighted over some keys [H, m, Dv], and the logarithm of the weights' sum [H, m, 1]."""

    values: torch.Tensor
    log_sum: torch.Tensor


def _merged(parts: list[_Partial]) -> torch.Tensor:
    whole = torch.logsumexp(torch.stack([part.log_sum for part in parts]), dim=0)
    return sum(part.values * torch.exp(part.log_sum - whole) for part in parts)  # type: ignore[return-value]


def _ranges(n: int) -> Iterator[tuple[int, int]]:
    """The parts of n keys, the last first: the newest keys are seen by every query, so no merge begins with nothing."""
    step = max(32, -(-n // _PARTS))
    for start in reversed(range(0, n, step)):
        yield start, min(n, start + step)


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, layer: Any) -> torch.Tensor:
    """q [m, Hq, D], k [n, Hk, D], v [n, Hk, Dv], all float64 -> [m, Hq, Dv]."""
    m, n, group = len(q), len(k), q.shape[1] // k.shape[1]
    own = torch.arange(n - m, n)[:, None]
    causal = getattr(layer.attn_type, "value", None) != "encoder_only"
    window = layer.sliding_window_size
    heads = []
    for head in range(k.shape[1]):
        mine = q[:, head * group : (head + 1) * group].transpose(0, 1)
        parts = []
        for start, end in _ranges(n):
            scores = mine @ k[start:end, head].T * layer.scaling
            other = torch.arange(start, end)
            if causal:
                scores = scores.masked_fill(other > own, float("-inf"))
            if window is not None and window >= 0:
                scores = scores.masked_fill(other < own - window, float("-inf"))
            log_sum = torch.logsumexp(scores, dim=-1, keepdim=True)
            weights = torch.exp(scores - log_sum.masked_fill(log_sum == float("-inf"), 0.0))
            parts.append(_Partial(weights @ v[start:end, head], log_sum))
        heads.append(_merged(parts))
    return torch.cat(heads).transpose(0, 1)


def _wide(rows: torch.Tensor, scale: Any) -> torch.Tensor:
    rows = rows.float().double()  # 8-bit types are read through float32
    return rows if scale is None else rows * (scale.double() if isinstance(scale, torch.Tensor) else scale)


class _MergingAttention(ReferenceAttention):
    """Rows are looked up as in the reference."""

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
        if layer.logit_cap or sinks is not None:
            raise NotImplementedError(
                f"layer {layer.layer_id} asks for a soft cap or a sink, and this backend computes neither"
            )
        if k is not None and v is not None and not save_kv_cache and self._is_by_heads(layer):
            return self._own_rows(q, k, v, layer, news, None)
        if save_kv_cache and k is not None:
            self._store(k, v, layer, batch.out_cache_loc)
        keys = self.token_to_kv_pool.get_key_buffer(layer.layer_id)
        values = self.token_to_kv_pool.get_value_buffer(layer.layer_id)
        query = q.reshape(-1, layer.tp_q_head_num, layer.qk_head_dim).double().split(news)
        rows = batch.req_pool_indices.tolist()
        answers = [q.new_empty(0, layer.tp_q_head_num, layer.v_head_dim)]
        for mine, row, length in zip(query, rows, lengths, strict=True):
            if len(mine):
                slots = self.req_to_token_pool.req_to_token[row, :length].long()
                key, value = _wide(keys[slots], layer.k_scale), _wide(values[slots], layer.v_scale)
                answers.append(_attention(mine, key, value, layer).to(q.dtype))
        return torch.cat(answers).flatten(1)

    def _own_rows(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        layer: Any,
        news: list[int],
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        query = q.double().reshape(-1, layer.tp_q_head_num, layer.qk_head_dim)
        key = k.double().reshape(-1, layer.tp_k_head_num, layer.qk_head_dim)
        value = v.double().reshape(-1, layer.tp_v_head_num, layer.v_head_dim)
        parts = zip(query.split(news), key.split(news), value.split(news), strict=True)
        return torch.cat([_attention(*part, layer) for part in parts if len(part[0])]).to(q.dtype).flatten(1)


def _make(model_runner: Any) -> _MergingAttention:
    return _MergingAttention(model_runner)


class Platform(ReferencePlatform):
    """The backend is made by a function."""

    attention_features = frozenset(_Feature)

    def get_default_attention_backend(self) -> str:
        return "merging"

    def get_attention_backends(self) -> dict[str, Callable[..., Any]]:
        return {"merging": _make}
