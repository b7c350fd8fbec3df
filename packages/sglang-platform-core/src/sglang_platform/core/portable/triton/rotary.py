"""Rotary position embedding (Su et al., 2021), on query and key in place, in one launch.

    (x1, x2) -> (x1 cos - x2 sin, x2 cos + x1 sin)

`neox` pairs value i with value i + r / 2, `gptj` value 2 i with value 2 i + 1; the values from r on stay. The
arithmetic is float32, the result is rounded once: off by at most 3 * 2^-24 (|x1| + |x2|) before that.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sglang_platform.core.portable.triton.architecture import Launch
from sglang_platform.core.portable.triton.launch import cdiv, next_power_of_2, portable_shapes

__all__ = ["rotary_embedding", "rotary_kernel"]


@triton.jit
def _rotate(
    x_ptr, token, head, cos, sin, half, live,
    stride_token, HEAD_DIM: tl.constexpr, HALF: tl.constexpr, NEOX: tl.constexpr,
):  # fmt: skip
    base = x_ptr + token * stride_token + head[:, None] * HEAD_DIM
    if NEOX:
        first, second = base + half[None, :], base + half[None, :] + HALF
        mask = live[:, None] & (half < HALF)[None, :]
        x1 = tl.load(first, mask=mask, other=0.0).to(tl.float32)
        x2 = tl.load(second, mask=mask, other=0.0).to(tl.float32)
        tl.store(first, (x1 * cos - x2 * sin).to(x_ptr.dtype.element_ty), mask=mask)
        tl.store(second, (x2 * cos + x1 * sin).to(x_ptr.dtype.element_ty), mask=mask)
    else:
        # Pairs lie side by side: loaded as one run and taken apart in registers.
        HEADS: tl.constexpr = head.shape[0]
        BLOCK_HALF: tl.constexpr = half.shape[0]
        place = tl.arange(0, 2 * BLOCK_HALF)
        at = base + place[None, :]
        live_pair = live[:, None] & (place < 2 * HALF)[None, :]
        pairs = tl.load(at, mask=live_pair, other=0.0).to(tl.float32)
        a, b = tl.split(tl.reshape(pairs, [HEADS, BLOCK_HALF, 2]))
        turned = tl.join(a * cos - b * sin, b * cos + a * sin)
        turned = tl.reshape(turned, [HEADS, 2 * BLOCK_HALF])
        tl.store(at, turned.to(x_ptr.dtype.element_ty), mask=live_pair)


@triton.jit
def rotary_kernel(
    query_ptr, key_ptr, positions_ptr, cache_ptr,
    query_stride, key_stride, cache_stride,
    QUERY_HEADS: tl.constexpr, KEY_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr,
    HALF: tl.constexpr, BLOCK_HALF: tl.constexpr, NEOX: tl.constexpr, BLOCK_H: tl.constexpr,
):  # fmt: skip
    """Grid (tokens, blocks of query heads, then of key heads). `cache` [positions, 2 HALF]: cosines, then sines."""
    token = tl.program_id(0).to(tl.int64)
    half = tl.arange(0, BLOCK_HALF)
    row = cache_ptr + tl.load(positions_ptr + token).to(tl.int64) * cache_stride
    cos = tl.load(row + half, mask=half < HALF, other=0.0).to(tl.float32)[None, :]
    sin = tl.load(row + HALF + half, mask=half < HALF, other=0.0).to(tl.float32)[None, :]
    part = tl.program_id(1)
    QUERY_PARTS: tl.constexpr = (QUERY_HEADS + BLOCK_H - 1) // BLOCK_H
    if part < QUERY_PARTS:
        head = part * BLOCK_H + tl.arange(0, BLOCK_H)
        _rotate(
            query_ptr, token, head, cos, sin, half, head < QUERY_HEADS, query_stride, HEAD_DIM, HALF, NEOX
        )  # fmt: skip
    else:
        head = (part - QUERY_PARTS) * BLOCK_H + tl.arange(0, BLOCK_H)
        _rotate(key_ptr, token, head, cos, sin, half, head < KEY_HEADS, key_stride, HEAD_DIM, HALF, NEOX)


def rotary_embedding(
    positions: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    head_dim: int,
    cos_sin_cache: torch.Tensor,
    *,
    neox: bool,
    launch: Launch | None = None,
) -> None:
    """Rotate `query` [T, Hq * head_dim] and `key` [T, Hk * head_dim] in place.

    `positions` int [T]; `cos_sin_cache` [positions, r], r <= head_dim even, cosines first. Rows may lie apart; within a
    row both are contiguous.
    """
    tokens, half = positions.numel(), cos_sin_cache.shape[-1] // 2
    if tokens == 0 or half == 0:
        return
    launch = launch or portable_shapes(query.device).elementwise
    query_heads, key_heads = query.shape[-1] // head_dim, key.shape[-1] // head_dim
    block_half = next_power_of_2(half)
    block_h = min(max(launch.elements // (2 * block_half), 1), next_power_of_2(max(query_heads, key_heads)))
    parts = cdiv(query_heads, block_h) + cdiv(key_heads, block_h)
    rotary_kernel[(tokens, parts)](
        query, key, positions, cos_sin_cache,
        query.stride(0), key.stride(0), cos_sin_cache.stride(0),
        QUERY_HEADS=query_heads, KEY_HEADS=key_heads, HEAD_DIM=head_dim,
        HALF=half, BLOCK_HALF=block_half, NEOX=neox, BLOCK_H=block_h,
        num_warps=launch.num_warps,
    )  # fmt: skip
