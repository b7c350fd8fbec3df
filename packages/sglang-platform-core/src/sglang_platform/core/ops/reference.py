"""The fused ops in plain torch: the reference for every device, and the implementation for CPU tensors.

Arithmetic is float32, results are rounded once to the input's dtype.
"""

from __future__ import annotations

import torch

from sglang_platform.core.memory.rows import cast_rows

__all__ = ["fused_add_rms_norm", "quantise_per_token", "rms_norm", "rotary_embedding", "silu_and_mul"]


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float, *, round_first: bool = False) -> torch.Tensor:
    """`x` [.., H] over the root of its mean square, times `weight` [H]; `round_first` rounds before the weight."""
    return _normalised(x.float(), weight, eps, x.dtype, round_first)


def fused_add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float, *, round_first: bool = False
) -> None:
    """In place: `residual` becomes `x + residual`, `x` that sum normalised."""
    total = x.float() + residual.float()
    residual.copy_(total)
    x.copy_(_normalised(total, weight, eps, x.dtype, round_first))


def _normalised(
    x: torch.Tensor, weight: torch.Tensor, eps: float, dtype: torch.dtype, round_first: bool
) -> torch.Tensor:
    y = x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps)
    if round_first:
        y = y.to(dtype).float()
    return (y * weight.float()).to(dtype)


def rotary_embedding(
    positions: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    head_dim: int,
    cos_sin_cache: torch.Tensor,
    *,
    neox: bool,
) -> None:
    """Rotate `query` [T, Hq * head_dim] and `key` [T, Hk * head_dim] in place; the cache holds cosines, then sines."""
    cos, sin = cos_sin_cache[positions.long()].float().unsqueeze(1).chunk(2, dim=-1)
    half = cos.shape[-1]
    for x in (query, key):
        rotated = x.unflatten(1, (-1, head_dim))[..., : 2 * half]
        first, second = (
            (rotated[..., :half], rotated[..., half:]) if neox else (rotated[..., ::2], rotated[..., 1::2])
        )
        x1, x2 = first.float(), second.float()
        turned = (
            x1 * cos - x2 * sin,
            x2 * cos + x1 * sin,
        )  # both before either is written: float() may not copy
        first.copy_(turned[0])
        second.copy_(turned[1])


def silu_and_mul(x: torch.Tensor) -> torch.Tensor:
    """`x` [.., 2 I] -> silu(x[.., :I]) * x[.., I:]."""
    gate, up = x.float().chunk(2, dim=-1)
    return (torch.nn.functional.silu(gate) * up).to(x.dtype)


def quantise_per_token(
    x: torch.Tensor, dtype: torch.dtype, *, group_size: int | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """`x` [.., H] as fp8 `dtype` [.., H] with float32 scales [.., 1], or [.., H / group_size]; value = code * scale."""
    groups = x.float().unflatten(-1, (-1, group_size or max(x.shape[-1], 1)))
    scales = groups.abs().amax(dim=-1) / torch.finfo(dtype).max
    scales = torch.where(scales == 0, torch.ones_like(scales), scales)
    return cast_rows(groups, dtype, scales.unsqueeze(-1)).flatten(-2), scales
