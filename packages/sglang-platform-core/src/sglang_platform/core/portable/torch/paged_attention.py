"""Attention over the paged KV cache in plain torch, on any device; also what a kernel is checked against.

Both read keys and values through the token table, in blocks, with the online softmax of Milakov and Gimelshein (2018);
neither ever holds a copy of a request's whole prefix.
"""

from __future__ import annotations

import torch

__all__ = ["paged_decode", "paged_extend"]

KEY_BLOCK = 512
QUERY_BLOCK = 128


def paged_decode(
    q: torch.Tensor,
    k_buffer: torch.Tensor,
    v_buffer: torch.Tensor,
    req_to_token: torch.Tensor,
    req_pool_indices: torch.Tensor,
    seq_lens: torch.Tensor,
    out: torch.Tensor,
    scaling: float,
    logit_cap: float = 0.0,
    window: int = -1,
    sinks: torch.Tensor | None = None,
    slot_map: torch.Tensor | None = None,
) -> None:
    """One new token per request against its cached tokens, itself included. Writes `out`.

    `q` [B, Hq, D], `k_buffer` [slots, Hk, D], `v_buffer` [slots, Hk, Dv], `out` [B, Hq, Dv]; float32, bfloat16 or
    float16, strided as long as the last dimension is contiguous; q and out may differ in type from the buffers.
    `req_to_token` int32 [requests, positions] names each position's slot, `req_pool_indices` [B] the row of each
    request, `seq_lens` [B] its cached tokens (int64 or int32); a row with seq_len <= 0 becomes zeros.
    A score is `scaling * q.k`, then `logit_cap * tanh(score / logit_cap)` unless the cap is 0. With `window` >= 0 only
    the last `window + 1` tokens count. `sinks` [Hq] adds exp(sink) to each head's softmax denominator. `slot_map`,
    int64 or int32, names for each slot of `req_to_token` the buffers' slot, where a pool keeps window layers apart.
    Raises IndexError for a slot or a row outside the tables. Called once per layer and decode step.
    """
    batch, heads, dim = q.shape
    if batch == 0:
        return
    lengths, rows = seq_lens.long(), req_pool_indices.long()
    kv_heads = k_buffer.shape[1]
    query = q.float().view(batch, kv_heads, heads // kv_heads, dim) * scaling
    first = (lengths - 1 - window).clamp(min=0) if window >= 0 else torch.zeros_like(lengths)
    state = _Softmax((batch, kv_heads, heads // kv_heads), v_buffer.shape[2], q.device)
    end = int(lengths.max())
    block = max(32, min(KEY_BLOCK, 4 * KEY_BLOCK // batch))
    for start in range(int(first.min()), end, block):
        positions = torch.arange(start, min(start + block, end), device=q.device)
        seen = (positions >= first[:, None]) & (positions < lengths[:, None])
        # An unseen position reads the slot of a seen one, for unused slots may hold anything.
        nearest = torch.minimum(torch.maximum(positions, first[:, None]), (lengths - 1).clamp(min=0)[:, None])
        slots = req_to_token[rows[:, None], nearest].long().masked_fill((lengths <= 0)[:, None], 0)
        slots = slots if slot_map is None else slot_map[slots].long()
        keys, values = k_buffer[slots].float(), v_buffer[slots].float()
        scores = torch.einsum("bhgd,bthd->bhgt", query, keys)
        empty = (lengths <= 0)[:, None, None, None]
        state.add(
            _cap(scores, logit_cap).masked_fill(~seen[:, None, None, :], float("-inf")),
            values.permute(0, 2, 1, 3).masked_fill(empty, 0.0),
        )
    out.copy_(state.result(None if sinks is None else sinks.view(kv_heads, -1)).view(batch, heads, -1))


def paged_extend(
    q: torch.Tensor,
    k_buffer: torch.Tensor,
    v_buffer: torch.Tensor,
    req_to_token: torch.Tensor,
    req_pool_indices: torch.Tensor,
    seq_lens: torch.Tensor,
    extend_prefix_lens: torch.Tensor,
    extend_seq_lens: torch.Tensor,
    out: torch.Tensor,
    scaling: float,
    logit_cap: float = 0.0,
    window: int = -1,
    causal: bool = True,
    sinks: torch.Tensor | None = None,
    slot_map: torch.Tensor | None = None,
) -> None:
    """Several new tokens per request, already stored in the cache, against the cached prefix and each other.

    `q` [T, Hq, D] and `out` [T, Hq, Dv] hold the requests' new tokens one after the other, `extend_seq_lens` [B] each;
    rows behind their sum are left alone. Token i of a request stands at position `extend_prefix_lens` + i and attends
    to the positions up to its own, or with `causal` False to all `seq_lens`; with `window` >= 0 to none more than
    `window` before its own. Everything else is as for `paged_decode`. Called once per layer and prefill step.
    """
    heads, kv_heads = q.shape[1], k_buffer.shape[1]
    group = heads // kv_heads
    row = 0
    requests = zip(
        req_pool_indices.tolist(),
        seq_lens.tolist(),
        extend_prefix_lens.tolist(),
        extend_seq_lens.tolist(),
        strict=True,
    )
    for index, length, prefix, count in requests:
        if prefix + count > length:
            raise ValueError(
                f"extend_prefix_lens {prefix} + extend_seq_lens {count} exceeds seq_lens {length}"
            )
        for first in range(0, count, QUERY_BLOCK):
            n = min(QUERY_BLOCK, count - first)
            here = slice(row + first, row + first + n)
            own = torch.arange(prefix + first, prefix + first + n, device=q.device)
            query = q[here].float().view(n, kv_heads, group, -1).permute(1, 2, 0, 3) * scaling
            state = _Softmax((kv_heads, group, n), v_buffer.shape[2], q.device)
            begin = max(0, prefix + first - window) if window >= 0 else 0
            end = prefix + first + n if causal else length
            for start in range(begin, end, KEY_BLOCK):
                positions = torch.arange(start, min(start + KEY_BLOCK, end), device=q.device)
                slots = req_to_token[index, start : start + len(positions)].long()
                slots = slots if slot_map is None else slot_map[slots].long()
                keys, values = k_buffer[slots].float(), v_buffer[slots].float()
                scores = _cap(torch.einsum("hgnd,thd->hgnt", query, keys), logit_cap)
                unseen = torch.zeros(n, len(positions), dtype=torch.bool, device=q.device)
                if causal:
                    unseen |= positions > own[:, None]
                if window >= 0:
                    unseen |= positions < own[:, None] - window
                state.add(scores.masked_fill(unseen, float("-inf")), values.transpose(0, 1)[:, None])
            result = state.result(None if sinks is None else sinks.view(kv_heads, group, 1))
            out[here].copy_(result.permute(2, 0, 1, 3).reshape(n, heads, -1))
        row += count


class _Softmax:
    """The online softmax of rows of shape `shape`: running maximum, denominator and weighted sum of values."""

    def __init__(self, shape: tuple[int, ...], v_dim: int, device: torch.device) -> None:
        self.maximum = torch.full(shape, float("-inf"), device=device)
        self.total = torch.zeros(shape, device=device)
        self.weighted = torch.zeros(*shape, v_dim, device=device)

    def add(self, scores: torch.Tensor, values: torch.Tensor) -> None:
        """`scores` [*shape, t]; `values` [..., t, v_dim], which broadcasts against them in a matrix product."""
        maximum = torch.maximum(self.maximum, scores.amax(-1))
        finite = maximum.masked_fill(maximum == float("-inf"), 0.0)
        weights = torch.exp(scores - finite[..., None])
        factor = torch.exp(self.maximum - finite)
        self.total = self.total * factor + weights.sum(-1)
        self.weighted = self.weighted * factor[..., None] + weights @ values
        self.maximum = maximum

    def result(self, sinks: torch.Tensor | None) -> torch.Tensor:
        """The normalised sum; zeros for a row that saw nothing."""
        total = self.total
        if sinks is not None:
            total = total + torch.exp(sinks.float() - self.maximum)
        normalised = self.weighted / total[..., None]
        return normalised.masked_fill((self.total == 0)[..., None], 0.0)


def _cap(scores: torch.Tensor, logit_cap: float) -> torch.Tensor:
    return logit_cap * torch.tanh(scores / logit_cap) if logit_cap > 0 else scores
