"""The selective state space of Mamba-2 in plain torch: state space duality, Dao and Gu 2024.

Per head, with the step d_t, the decay exp(d_t A) and the matrices B_t, C_t of the head's group:

    h_t = exp(d_t A) h_{t-1} + d_t x_t B_t^T        h: [P, N]
    y_t = h_t C_t + D x_t

Decode computes this step; prefill computes chunks of tokens at once, as the paper's section 6 decomposes it. Both are
the gated delta rule without erasure, of queries C_t, keys B_t and values d_t x_t.
"""

from __future__ import annotations

import torch

from sglang_platform.core.portable.torch.gated_delta import CHUNK, in_chunks, one_token_each
from sglang_platform.core.portable.torch.state_slots import owned_slots
from sglang_platform.core.portable.torch.token_chunks import token_chunks

__all__ = ["state_space"]


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
    rows = (c, b, inputs, log_decay, None)
    if starts is None:
        owned = owned_slots(slots)
        return owned.hide_padding(one_token_each(*rows, owned, states) + direct).to(x.dtype)
    bounds, own = starts.tolist(), slots.tolist()
    chunks = token_chunks(bounds, CHUNK, x.device)
    out = chunks.gather(in_chunks(*rows, chunks, own, states)[0], inputs) + direct
    out[bounds[-1] :] = 0  # tokens of no request
    for begin, end, slot in zip(bounds, bounds[1:], own, strict=False):
        if slot < 0:
            out[begin:end] = 0
    return out.to(x.dtype)
