"""More fused ops in float64, each with the bound that a correct kernel keeps: see `oracles.ops`."""

from __future__ import annotations

import math

import torch

from sglang_platform.conformance.oracles.attention import Expected
from sglang_platform.conformance.oracles.ops import bound_of
from sglang_platform.conformance.oracles.precision import format_of, gamma

__all__ = ["activation", "axis_table", "choice_of_experts", "gated_group_norm", "layer_norm"]

_U32 = format_of(torch.float32).unit_roundoff


def layer_norm(
    x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, epsilon: float
) -> Expected:
    """(x - mean) / sqrt(variance + epsilon) * weight + bias (Ba et al., arXiv 1607.06450); x [.., H].

    The mean errs by gamma(H, u32) mean |x|, which the differences carry; the rest errs relatively as an RMS norm does,
    with at most two roundings to the element type on the way.
    """
    dtype, u = x.dtype, format_of(x.dtype).unit_roundoff
    x = x.double()
    mean = x.mean(-1, keepdim=True)
    root = torch.sqrt((x - mean).square().mean(-1, keepdim=True) + epsilon)
    scale = torch.ones(x.shape[-1], dtype=torch.float64) if weight is None else weight.double()
    offset = torch.zeros(x.shape[-1], dtype=torch.float64) if bias is None else bias.double()
    turned = (x - mean) / root * scale
    value = turned + offset
    slipped = gamma(x.shape[-1] + 2, _U32) * x.abs().mean(-1, keepdim=True) + _U32 * (x.abs() + mean.abs())
    error = scale.abs() / root * slipped * 2
    error = (
        error + turned.abs() * (gamma(x.shape[-1] + 4, _U32) + gamma(8, _U32) + 2 * u) + _U32 * offset.abs()
    )
    return Expected(value, error + bound_of(value, 0.0, dtype, between=scale.abs()))


def gated_group_norm(
    x: torch.Tensor, gate: torch.Tensor, weight: torch.Tensor | None, group: int, epsilon: float
) -> Expected:
    """RMS of x * silu(gate) over each `group` columns, times weight; without a weight the product alone.

    The product may be rounded to the element type, which reaches the result itself and through the mean.
    """
    dtype, u = x.dtype, format_of(x.dtype).unit_roundoff
    gate = gate.double()
    product = x.double() * gate * torch.sigmoid(gate)
    absolute = 8 * _U32 * (x.double() * gate).abs()  # a sigmoid from 1 + tanh
    of_gate = float(gate.abs().max()) if gate.numel() else 0.0
    relative = (of_gate + 8) * _U32 + u
    if weight is None:
        return Expected(product, bound_of(product, relative, dtype) + absolute)
    groups = product.unflatten(-1, (-1, group))
    root = torch.sqrt(groups.square().mean(-1, keepdim=True) + epsilon)
    value = (groups / root).flatten(-2) * weight.double()
    relative = 2 * relative + gamma(group + 2, _U32) / 2 + gamma(6, _U32) + 2 * u
    # A product below the normal range errs by a fixed amount, which the root then divides.
    between = weight.double().abs() * (1 + 1 / root.expand_as(groups).flatten(-2))
    return Expected(value, bound_of(value, relative, dtype, between=between) + absolute * between)


_TANH = math.sqrt(2 / math.pi)


def activation(name: str, x: torch.Tensor, *, gated: bool = False) -> Expected:
    """f(x), or f(x[.., :I]) * x[.., I:]; f is `gelu`, `gelu_tanh`, `quick_gelu` or `relu2`.

    Exponentials err relatively by |argument| u32 and a few u32; 1 + tanh (a sigmoid, too, on many devices) and 1 + erf
    absolutely, so by |x| of that; one
    rounding to the element type may stand between.
    """
    dtype = x.dtype
    x, up = x.double().chunk(2, dim=-1) if gated else (x.double(), torch.ones((), dtype=torch.float64))
    absolute = x.abs() * 2.0**-124  # an exponential below the range of float32
    if name == "relu2":
        value, argument = x.clamp(min=0).square(), torch.zeros_like(x)
    elif name == "quick_gelu":
        value, argument = x * torch.sigmoid(1.702 * x), 1.702 * x
        absolute = absolute + x.abs() * 8 * _U32
    elif name == "gelu_tanh":
        argument = 2 * _TANH * (x + 0.044715 * x**3)
        value, absolute = x * torch.sigmoid(argument), absolute + x.abs() * 8 * _U32
    else:
        argument = x
        value, absolute = x * 0.5 * torch.special.erfc(-x / math.sqrt(2)), absolute + x.abs() * 8 * _U32
    relative = (argument.abs() + 8) * _U32 + 2 * format_of(dtype).unit_roundoff
    bound = bound_of(value * up, relative, dtype, between=up.abs())
    return Expected(value * up, bound + absolute * up.abs())


def axis_table(
    positions: torch.Tensor, cos_sin: torch.Tensor, section: tuple[int, ...], interleaved: bool
) -> torch.Tensor:
    """The cosines and sines [T, rotary_dim] of tokens with positions [3, T]: pair by pair, from the row of its axis."""
    half = cos_sin.shape[-1] // 2
    axes = []
    left = list(section)
    for pair in range(half):
        if interleaved:
            axis = pair % 3
            axes.append(axis if pair // 3 < section[axis] else 0)
        else:
            axis = next(one for one in range(3) if left[one])
            left[axis] -= 1
            axes.append(axis)
    table = torch.empty(positions.shape[1], 2 * half, dtype=cos_sin.dtype)
    for pair, axis in enumerate(axes):
        rows = cos_sin[positions[axis].long()]
        table[:, pair], table[:, half + pair] = rows[:, pair], rows[:, half + pair]
    return table


def choice_of_experts(
    logits: torch.Tensor,
    top_k: int,
    *,
    renormalize: bool = False,
    scores: str = "softmax",
    bias: torch.Tensor | None = None,
    groups: tuple[int, int] | None = None,
) -> torch.Tensor:
    """The weight of every expert for every token, [T, E] float64, zero for those that are not chosen.

    `groups`: (how many there are, how many of them are looked into), by the largest score in each. With a bias it is
    the biased score that chooses, and the other that weighs.
    """
    logits = logits.double()
    score = torch.softmax(logits, -1) if scores == "softmax" else torch.sigmoid(logits)
    choosing = score if bias is None else score + bias.double()
    if groups is not None:
        count, taken = groups
        best = choosing.unflatten(-1, (count, -1)).amax(-1)
        kept = torch.zeros_like(best).scatter(1, best.topk(taken, dim=-1).indices, 1.0).bool()
        choosing = choosing.masked_fill(~kept.repeat_interleave(logits.shape[1] // count, dim=1), -1e300)
    chosen = torch.zeros_like(score).scatter(1, choosing.topk(top_k, dim=-1).indices, 1.0)
    weights = score * chosen
    return weights / weights.sum(-1, keepdim=True) if renormalize else weights
