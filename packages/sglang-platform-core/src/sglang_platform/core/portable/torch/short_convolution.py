"""A causal convolution over the last few tokens, per channel, whose inputs are kept per request: plain torch.

y_t = sum_j weight[:, j] * x_{t - W + 1 + j} + bias,  then silu where asked for
"""

from __future__ import annotations

import torch

from sglang_platform.core.portable.torch.state_slots import owned_slots

__all__ = ["short_convolution"]


def short_convolution(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    starts: torch.Tensor | None,
    slots: torch.Tensor,
    resumes: torch.Tensor | None,
    states: torch.Tensor,
    *,
    silu: bool,
) -> torch.Tensor:
    """The convolved tokens [T, C]; `states` is updated in place. See `contract.state_kernels`."""
    if starts is None:
        return _one_token_each(x, weight, bias, slots, states, silu)
    kept = weight.shape[1] - 1
    out = torch.zeros_like(x)
    resumed = [True] * len(slots) if resumes is None else resumes.tolist()
    bounds = starts.tolist()
    for begin, end, slot, resume in zip(bounds, bounds[1:], slots.tolist(), resumed, strict=False):
        if slot < 0 or begin == end:
            continue
        state = states[slot, :, states.shape[2] - kept :]
        before = state if resume else torch.zeros_like(state)
        inputs = torch.cat([before.to(x.dtype), x[begin:end].T], dim=1)
        out[begin:end] = _convolve(inputs.unfold(1, kept + 1, 1), weight[:, None], bias, silu, x.dtype).T
        state.copy_(inputs[:, inputs.shape[1] - kept :])
    return out


def _one_token_each(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    slots: torch.Tensor,
    states: torch.Tensor,
    silu: bool,
) -> torch.Tensor:
    kept = weight.shape[1] - 1
    owned = owned_slots(slots)
    before = states[owned.slots]
    window = torch.cat([before[:, :, before.shape[2] - kept :].to(x.dtype), x[owned.rows, :, None]], dim=2)
    out = _convolve(window[:, :, None], weight[:, None], bias, silu, x.dtype)[:, :, 0]
    owned.write(states, before, torch.cat([before[:, :, 1:], x[owned.rows, :, None].to(before.dtype)], dim=2))
    return owned.hide_padding(out)


def _convolve(
    windows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, silu: bool, dtype: torch.dtype
) -> torch.Tensor:
    """`windows` [..., C, T, W] to [..., C, T], in at least float32."""
    wide = torch.promote_types(dtype, torch.float32)
    y = (windows.to(wide) * weight.to(wide)).sum(-1)
    if bias is not None:
        y = y + bias.to(wide)[:, None]
    return (torch.nn.functional.silu(y) if silu else y).to(dtype)
