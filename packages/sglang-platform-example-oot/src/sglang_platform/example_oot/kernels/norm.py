"""RMS norm (Zhang and Sennrich 2019): schemas, and the plain torch implementations. Float32 inside, one rounding.

A vendor keeps this: the schema is what the parts call, the function what a kernel is checked against.
"""

from __future__ import annotations

import torch

__all__ = ["SCHEMAS", "fused_add_rms_norm", "rms_norm"]

SCHEMAS = {
    "rms_norm": "(Tensor x, Tensor weight, float eps, Tensor(a!) out) -> ()",
    "fused_add_rms_norm": "(Tensor(a!) x, Tensor(b!) residual, Tensor weight, float eps) -> ()",
}


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float, out: torch.Tensor) -> None:
    """`out = x / sqrt(mean(x^2) + eps) * weight` over the last dimension.

    `x` and `out` [..., H] of one type, up to 3-D, rows strided as they like (a slice of a fused qkv row, per-head
    norms); `weight` [H] of that type or float32. `out` may be `x`.
    """
    out.copy_(_normalised(x.float(), eps) * weight)


def fused_add_rms_norm(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float) -> None:
    """`residual += x`, then `x = rms_norm(residual)`, both in place; the norm sees the sum before it is rounded.

    `x` and `residual` [T, H] of one type, `weight` [H] of that type or float32: the semantics of SGLang's kernel of
    this name.
    """
    total = x.float() + residual.float()
    residual.copy_(total)
    x.copy_(_normalised(total, eps) * weight)


def _normalised(x: torch.Tensor, eps: float) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
