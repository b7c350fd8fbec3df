"""Short causal convolutions over time, of hybrid models with convolution layers: schema, and the plain torch version.

A vendor keeps this: the schema is what the parts call, the function what a kernel is checked against.
"""

from __future__ import annotations

import torch

__all__ = ["SCHEMAS", "short_conv"]

SCHEMAS = {
    "short_conv": (
        "(Tensor x, Tensor weight, Tensor? bias, Tensor? starts, Tensor slots, Tensor? resumes, Tensor(a!) states, "
        "Tensor(b!) out, bool silu=False) -> ()"
    )
}


def short_conv(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    starts: torch.Tensor | None,
    slots: torch.Tensor,
    resumes: torch.Tensor | None,
    states: torch.Tensor,
    out: torch.Tensor,
    silu: bool = False,
) -> None:
    """`out_t = sum_j weight[:, j] * x_{t - width + 1 + j} + bias` for each channel, then silu where asked for.

    `x` and `out` [T, C] hold the requests' tokens one after the other, request r's from `starts[r]` to `starts[r + 1]`
    (int32 or int64 [B + 1]; None: one token each); `weight` [C, width], `bias` [C]. The inputs before a request's first
    token are its state `states[slots[r]]` [C, >= width - 1], the newest last, or zeros where `resumes` [B] bool is
    False; afterwards its state is its newest inputs. A request whose slot is negative is padding: nothing of it is read
    or written. All of one type, but for the states, which may be of any. Called once per convolution layer and step.
    """
    kept = weight.shape[1] - 1
    places = slots.tolist()
    bounds = list(range(len(places) + 1)) if starts is None else starts.tolist()
    resumed = [True] * len(places) if resumes is None else resumes.tolist()
    for begin, end, slot, resume in zip(bounds, bounds[1:], places, resumed, strict=False):
        if slot < 0 or begin == end:
            continue
        state = states[slot, :, states.shape[2] - kept :]
        before = state.float() if resume else torch.zeros(state.shape)
        inputs = torch.cat([before, x[begin:end].T.float()], dim=1)
        windows = inputs.unfold(1, kept + 1, 1)
        y = (windows * weight.float()[:, None]).sum(-1)
        y = y if bias is None else y + bias.float()[:, None]
        out[begin:end] = (torch.nn.functional.silu(y) if silu else y).T.to(out.dtype)
        state.copy_(inputs[:, inputs.shape[1] - kept :])
