"""Rotary position embedding (Su et al. 2021): schema, and the plain torch implementation.

A vendor keeps this: the schema is what the parts call, the function what a kernel is checked against.
"""

from __future__ import annotations

import torch

__all__ = ["SCHEMAS", "rotary_embedding"]

SCHEMAS = {
    "rotary_embedding": (
        "(Tensor positions, Tensor(a!) q, Tensor(b!) k, int head_size, Tensor cos_sin_cache, bool is_neox) -> ()"
    )
}


def rotary_embedding(
    positions: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    head_size: int,
    cos_sin_cache: torch.Tensor,
    is_neox: bool,
) -> None:
    """Rotate the first `rotary_dim` elements of every head of `q` and `k`, in place.

    `positions` int64 or int32 [T]; `q` [T, Hq * head_size] or [T, Hq, head_size], `k` alike, rows strided as they like
    (slices of a fused qkv row); `cos_sin_cache` [max_position, rotary_dim], cosines then sines, float32 or q's type.
    The pairs are (i, i + rotary_dim / 2) with `is_neox`, else (2 i, 2 i + 1). Float32 inside, one rounding.
    Raises IndexError for a position outside the cache.
    """
    if bool(((positions < 0) | (positions >= cos_sin_cache.shape[0])).any()):
        raise IndexError(f"positions holds a value outside [0, {cos_sin_cache.shape[0]})")
    cosines, sines = cos_sin_cache[positions.long()].float()[:, None].chunk(2, dim=-1)
    rotary_dim = cos_sin_cache.shape[1]
    for x in (q, k):
        heads = x if x.dim() == 3 else x.unflatten(1, (x.shape[1] // head_size, head_size))
        turned = heads[..., :rotary_dim]
        halves = turned.chunk(2, dim=-1) if is_neox else (turned[..., ::2], turned[..., 1::2])
        a, b = (half.float() for half in halves)
        first, second = a * cosines - b * sines, b * cosines + a * sines
        halves[0].copy_(first)
        halves[1].copy_(second)
