"""Attention of the diffusion runtime, by the same kernel that prefills the LLM runtime's KV cache.

A vendor changes: the kernel call. A device with a dense attention kernel calls that, and needs no table of slots.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import torch
from sglang_platform.core import DiffusionAttention, counter

from sglang_platform.example_oot import kernels

_calls = counter("example_oot.diffusion.attention.calls")


class ExampleOOTDiffusionAttention(DiffusionAttention):
    """Dense attention as an extend over a cache: the keys of a batch, one sequence behind the other, are the slots."""

    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_metadata: Any
    ) -> torch.Tensor:
        batch, queries, heads, dim = query.shape
        keys, kv_heads = key.shape[1:3]
        if self.causal and queries > keys:
            raise ValueError(
                f"causal attention of {queries} queries over {keys} keys leaves queries without a key"
            )
        parts = _parts(batch, queries, keys, self.causal, query.device)
        out = query.new_empty(batch * queries, heads, value.shape[3])
        kernels.paged_extend(
            query.reshape(batch * queries, heads, dim),
            key.reshape(batch * keys, kv_heads, dim),
            value.reshape(batch * keys, kv_heads, value.shape[3]),
            parts.slots,
            parts.sequences,
            parts.key_counts,
            parts.first_positions,
            parts.query_counts,
            out,
            self.softmax_scale,
            causal=self.causal,
        )
        _calls.add()
        return out.view(batch, queries, heads, value.shape[3])


class _Parts(NamedTuple):
    """Which queries see which keys, in the terms of the extend kernel. A part is a run of queries of one sequence, not
    longer than its keys."""

    slots: torch.Tensor  # int32 [batch, keys]: the row of each key
    sequences: torch.Tensor  # int64 [parts]
    key_counts: torch.Tensor  # int64 [parts]
    first_positions: torch.Tensor  # int64 [parts]: where the part's first query stands among the keys
    query_counts: torch.Tensor  # int64 [parts]


@functools.lru_cache(maxsize=64)
def _parts(batch: int, queries: int, keys: int, causal: bool, device: torch.device) -> _Parts:
    """The same for every layer and denoising step of one picture size. Without causality the position is nothing to
    the kernel, but a part must fit into the keys, so a longer run of queries is cut."""
    counts = [min(keys, queries - first) for first in range(0, queries, keys)]
    first = keys - queries if causal else 0
    n = batch * len(counts)
    return _Parts(
        slots=torch.arange(batch * keys, dtype=torch.int32, device=device).view(batch, keys),
        sequences=torch.arange(batch, device=device).repeat_interleave(len(counts)),
        key_counts=torch.full((n,), keys, device=device),
        first_positions=torch.full((n,), first, device=device),
        query_counts=torch.tensor(counts * batch, device=device),
    )
