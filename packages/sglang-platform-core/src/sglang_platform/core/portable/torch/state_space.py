"""The selective state space of Mamba-2 in plain torch: state space duality, Dao and Gu 2024.

Per head, with the step d_t, the decay exp(d_t A) and the matrices B_t, C_t of the head's group:

    h_t = exp(d_t A) h_{t-1} + d_t x_t B_t^T        h: [P, N]
    y_t = h_t C_t + D x_t

Decode computes this step; prefill computes chunks of tokens at once, as the paper's section 6 decomposes it.
"""

from __future__ import annotations

import torch

from sglang_platform.core.portable.torch.state_slots import owned_slots
from sglang_platform.core.portable.torch.token_chunks import TokenChunks, token_chunks

__all__ = ["state_space"]

_CHUNK = 64


def state_space(
    x: torch.Tensor,
    step: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    d: torch.Tensor | None,
    starts: torch.Tensor | None,
    slots: torch.Tensor,
    states: torch.Tensor,
) -> torch.Tensor:
    """The outputs [T, heads, P]; `states` is updated in place. See `contract.state_kernels`."""
    wide = torch.promote_types(x.dtype, torch.float32)
    group = x.shape[1] // b.shape[1]
    b, c = (m.to(wide).repeat_interleave(group, dim=1) for m in (b, c))
    log_decay = step.to(wide) * a.to(wide)
    inputs = x.to(wide) * step.to(wide)[..., None]
    direct = 0 if d is None else x.to(wide) * d.to(wide)[:, None]
    if starts is None:
        out = _one_token_each(inputs, log_decay, b, c, slots, states) + direct
        return owned_slots(slots).hide_padding(out).to(x.dtype)
    bounds, own = starts.tolist(), slots.tolist()
    chunks = token_chunks(bounds, _CHUNK, x.device)
    out = chunks.gather(_in_chunks(inputs, log_decay, b, c, chunks, own, states), inputs) + direct
    out[bounds[-1] :] = 0  # tokens of no request
    for begin, end, slot in zip(bounds, bounds[1:], own, strict=False):
        if slot < 0:
            out[begin:end] = 0
    return out.to(x.dtype)


def _one_token_each(
    x: torch.Tensor,
    log_decay: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    slots: torch.Tensor,
    states: torch.Tensor,
) -> torch.Tensor:
    owned = owned_slots(slots)
    x, log_decay, b, c = (m[owned.rows] for m in (x, log_decay, b, c))
    before = states[owned.slots]
    state = before.to(x.dtype) * log_decay.exp()[:, :, None, None] + x[..., None] * b[:, :, None]
    owned.write(states, before, state)
    return (state * c[:, :, None]).sum(-1)


def _in_chunks(
    x: torch.Tensor,
    log_decay: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    chunks: TokenChunks,
    slots: list[int],
    states: torch.Tensor,
) -> torch.Tensor:
    """Outputs [M, heads, chunk, P]."""
    x, b, c = (chunks.spread(m) for m in (x, b, c))
    total = chunks.spread(log_decay).cumsum(-1)
    size = torch.arange(chunks.size, device=x.device)
    later = size[:, None] < size
    decay = (total[..., :, None] - total[..., None, :]).masked_fill(later, -torch.inf).exp()
    out = (c @ b.transpose(-1, -2) * decay) @ x
    added = (x * (total[..., -1:] - total).exp()[..., None]).transpose(-1, -2) @ b
    c = c * total.exp()[..., None]
    over_chunk = total[..., -1].exp()[..., None, None]
    for slot, of_request in zip(slots, chunks.of_requests, strict=False):
        if slot < 0 or not of_request:
            continue
        state = states[slot].to(x.dtype)
        for chunk in of_request:
            out[chunk] += c[chunk] @ state.transpose(-1, -2)
            state = over_chunk[chunk] * state + added[chunk]
        states[slot] = state.to(states.dtype)
    return out
