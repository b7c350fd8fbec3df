"""The gated delta rule in plain torch: Gated Delta Networks, Yang, Kautz and Hatamizadeh 2024.

Per value head, with keys and queries of length one, decay a_t and step b_t:

    S_t = a_t S_{t-1} (I - b_t k_t k_t^T) + b_t v_t k_t^T        S: [V, K]
    o_t = scale * S_t q_t

Decode computes this step. Prefill computes chunks of tokens at once, by the WY form of the paper's section 3.3: within
a chunk, u = (I + A)^{-1} b (v - a k S) with A strictly lower triangular, so the chunk costs matrix products and one
triangular solve, and only the state passes from one chunk to the next.

Without a step b_t nothing is erased, S_t = a_t S_{t-1} + v_t k_t^T: the recurrence of `state_space`.
"""

from __future__ import annotations

import torch
from torch.nn.functional import softplus

from sglang_platform.core.portable.torch.state_slots import OwnedSlots, owned_slots
from sglang_platform.core.portable.torch.token_chunks import TokenChunks, token_chunks

__all__ = ["CHUNK", "gated_delta_gates", "gated_delta_rule", "in_chunks", "one_token_each"]

CHUNK = 64
"""Tokens of a chunk: also the interval at which states are returned."""

_LENGTH_EPSILON = 1e-6


def gated_delta_gates(
    a: torch.Tensor, b: torch.Tensor, decay_log: torch.Tensor, bias: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The logarithm of the decay, -exp(decay_log) * softplus(a + bias), and the step sigmoid(b): each float32
    [T, heads]."""
    log_decay = -decay_log.float().exp() * softplus(a.float() + bias.float())
    return log_decay, b.float().sigmoid()


def gated_delta_rule(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    log_decay: torch.Tensor,
    step: torch.Tensor,
    starts: torch.Tensor | None,
    slots: torch.Tensor,
    states: torch.Tensor,
    *,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The outputs [T, value heads, V] and, for a prefill, the states before each chunk; `states` is updated in place.
    See `contract.state_kernels`."""
    wide = torch.promote_types(v.dtype, torch.float32)
    group = v.shape[1] // q.shape[1]
    q = (_of_length_one(q.to(wide)) * scale).repeat_interleave(group, dim=1)
    k = _of_length_one(k.to(wide)).repeat_interleave(group, dim=1)
    rows = (q, k, v.to(wide), log_decay.to(wide), step.to(wide))
    if starts is None:
        owned = owned_slots(slots)
        return owned.hide_padding(one_token_each(*rows, owned, states)).to(v.dtype), None
    chunks = token_chunks(starts.tolist(), CHUNK, v.device)
    out, before = in_chunks(*rows, chunks, slots.tolist(), states)
    return chunks.gather(out, v), before


def _of_length_one(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + _LENGTH_EPSILON)


def one_token_each(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    log_decay: torch.Tensor,
    step: torch.Tensor | None,
    owned: OwnedSlots,
    states: torch.Tensor,
) -> torch.Tensor:
    """The outputs [T, heads, V] of one token per request; `states` is updated in place. No `step`: nothing is
    erased."""
    q, k, v, log_decay = (x[owned.rows] for x in (q, k, v, log_decay))
    before = states[owned.slots]
    state = before.to(v.dtype) * log_decay.exp()[:, :, None, None]
    if step is not None:
        v = (v - (state * k[:, :, None]).sum(-1)) * step[owned.rows][:, :, None]
    state = state + v[..., None] * k[:, :, None]
    owned.write(states, before, state)
    return (state * q[:, :, None]).sum(-1)


def in_chunks(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    log_decay: torch.Tensor,
    step: torch.Tensor | None,
    chunks: TokenChunks,
    slots: list[int],
    states: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Outputs [M, heads, chunk, V], and the state before each chunk [M, heads, V, K]. No `step`: nothing is erased, and
    the states before chunks are not returned."""
    q, k, v = (chunks.spread(x) for x in (q, k, v))
    total = chunks.spread(log_decay).cumsum(-1)

    size = torch.arange(chunks.size, device=v.device)
    earlier, not_later = size[:, None] > size, size[:, None] >= size
    # Later positions do not contribute to a row: mask their exponents, which could overflow, before exp.
    decay = (total[..., :, None] - total[..., None, :]).masked_fill(~not_later, -torch.inf).exp()
    since_start = total.exp()[..., None]
    written, erased, before = v, None, None
    if step is not None:
        step = chunks.spread(step)[..., None]
        lower = (step * decay * (k @ k.transpose(-1, -2))).masked_fill(~earlier, 0.0)
        solved = torch.linalg.solve_triangular(
            lower + torch.eye(chunks.size, dtype=v.dtype, device=v.device),
            torch.cat([step * v, step * since_start * k], dim=-1),
            upper=False,
            unitriangular=True,
        )
        written, erased = solved.split([v.shape[-1], k.shape[-1]], dim=-1)
        before = v.new_zeros(chunks.total, v.shape[1], v.shape[3], k.shape[3])
    within = q @ k.transpose(-1, -2) * decay
    q = q * since_start
    k = k * (total[..., -1:] - total).exp()[..., None]
    over_chunk = total[..., -1].exp()[..., None, None]

    out = torch.zeros_like(v)
    for slot, of_request in zip(slots, chunks.of_requests, strict=False):
        if slot < 0 or not of_request:
            continue
        state = states[slot].to(v.dtype)
        for chunk in of_request:
            new = written[chunk]
            if erased is not None and before is not None:
                before[chunk] = state
                new = new - erased[chunk] @ state.transpose(-1, -2)
            out[chunk] = q[chunk] @ state.transpose(-1, -2) + within[chunk] @ new
            state = over_chunk[chunk] * state + new.transpose(-1, -2) @ k[chunk]
        states[slot] = state.to(states.dtype)
    return out, before
