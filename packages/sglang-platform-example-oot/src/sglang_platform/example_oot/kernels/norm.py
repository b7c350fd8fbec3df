"""RMS norm (Zhang and Sennrich 2019) and layer norm (Ba et al. 2016): schemas, and the plain torch implementations.

A vendor keeps this: the schema is what the parts call, the function what a kernel is checked against. All compute in
float32 and round once.
"""

from __future__ import annotations

import torch

__all__ = ["SCHEMAS", "fused_add_rms_norm", "layer_norm", "rms_norm"]

SCHEMAS = {
    "rms_norm": "(Tensor x, Tensor? weight, float eps, Tensor(a!) out, float shift=0.0) -> ()",
    "fused_add_rms_norm": (
        "(Tensor(a!) x, Tensor(b!) residual, Tensor weight, float eps, float shift=0.0) -> ()"
    ),
    "layer_norm": "(Tensor x, Tensor? weight, Tensor? bias, float eps, Tensor(a!) out) -> ()",
}


def rms_norm(
    x: torch.Tensor, weight: torch.Tensor | None, eps: float, out: torch.Tensor, shift: float = 0.0
) -> None:
    """`out = x / sqrt(mean(x^2) + eps) * (weight + shift)` over the last dimension; without a weight, times nothing.

    `x` and `out` [..., H] of one type, up to 3-D, rows strided as they like (a slice of a fused qkv row, per-head
    norms); `weight` [H] of that type or float32. `out` may be `x`.
    """
    normalised = _normalised(x.float(), eps)
    out.copy_(normalised if weight is None else normalised * (weight.float() + shift))


def fused_add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float, shift: float = 0.0
) -> None:
    """`residual += x`, then `x = rms_norm(residual)`, both in place; the norm sees the sum before it is rounded.

    `x` and `residual` [T, H] of one type, `weight` [H] of that type or float32: the semantics of SGLang's kernel of
    this name.
    """
    total = x.float() + residual.float()
    residual.copy_(total)
    x.copy_(_normalised(total, eps) * (weight.float() + shift))


def layer_norm(
    x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float, out: torch.Tensor
) -> None:
    """`out = (x - mean) / sqrt(variance + eps) * weight + bias`, `x` and `out` [T, H] of one type; `weight` and `bias`
    [H] of one type, that of x or float32."""
    scale, offset = (None if one is None else one.float() for one in (weight, bias))
    out.copy_(torch.nn.functional.layer_norm(x.float(), x.shape[-1:], scale, offset, eps))


def _normalised(x: torch.Tensor, eps: float) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
