"""Rotary positions, quantisation and store in one launch, so that keys are read once.

    (x1, x2) -> (x1 cos - x2 sin, x2 cos + x1 sin)               queries and keys, in place
    k_out[slot] = cast(key / k_scale),  v_out[slot] = cast(value / v_scale)

A program takes one token, and a block of query heads, of key heads, or of the values' columns. The bytes are those of
`rotary_embedding` and `store_pair` one after the other: rotated keys are rounded to their own type before they are
divided and cast. A program of keys writes them twice, to where they came from (attention of the new tokens reads them
there) and to the cache; what lies behind the rotated part of a head goes to the cache as it is.

A slot below zero names no row: nothing is stored there.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sglang_platform.core.memory.rows import Scale
from sglang_platform.core.portable.triton.architecture import Launch
from sglang_platform.core.portable.triton.kernels.kv_store import as_stored, scale_kind
from sglang_platform.core.portable.triton.launch import cdiv, next_power_of_2
from sglang_platform.core.portable.triton.wrappers.hardware import Hardware

__all__ = ["rotary_store_kernel", "rotate_and_store"]


@triton.jit
def _rotate(
    row_ptr, head, cos, sin, half, live, out_ptr, scale,
    HEAD_DIM: tl.constexpr, HALF: tl.constexpr, NEOX: tl.constexpr, STORED: tl.constexpr,
    SCALE: tl.constexpr, FORMAT: tl.constexpr, IN_HARDWARE: tl.constexpr,
):  # fmt: skip
    """Turn the heads `head` of a token's row in place. STORED: into its row of the cache too."""
    TYPE: tl.constexpr = row_ptr.dtype.element_ty
    base = head[:, None] * HEAD_DIM
    if NEOX:
        first = base + half[None, :]
        second = first + HALF
        mask = live[:, None] & (half < HALF)[None, :]
        x1 = tl.load(row_ptr + first, mask=mask, other=0.0).to(tl.float32)
        x2 = tl.load(row_ptr + second, mask=mask, other=0.0).to(tl.float32)
        y1 = (x1 * cos - x2 * sin).to(TYPE)
        y2 = (x2 * cos + x1 * sin).to(TYPE)
        tl.store(row_ptr + first, y1, mask=mask)
        tl.store(row_ptr + second, y2, mask=mask)
        if STORED:
            tl.store(out_ptr + first, as_stored(y1, scale, out_ptr, SCALE, FORMAT, IN_HARDWARE), mask=mask)
            tl.store(out_ptr + second, as_stored(y2, scale, out_ptr, SCALE, FORMAT, IN_HARDWARE), mask=mask)
    else:
        # Pairs lie side by side: loaded as one run and taken apart in registers.
        HEADS: tl.constexpr = head.shape[0]
        BLOCK_HALF: tl.constexpr = half.shape[0]
        place = tl.arange(0, 2 * BLOCK_HALF)
        at = base + place[None, :]
        mask = live[:, None] & (place < 2 * HALF)[None, :]
        pairs = tl.load(row_ptr + at, mask=mask, other=0.0).to(tl.float32)
        a, b = tl.split(tl.reshape(pairs, [HEADS, BLOCK_HALF, 2]))
        turned = tl.join(a * cos - b * sin, b * cos + a * sin)
        turned = tl.reshape(turned, [HEADS, 2 * BLOCK_HALF]).to(TYPE)
        tl.store(row_ptr + at, turned, mask=mask)
        if STORED:
            tl.store(out_ptr + at, as_stored(turned, scale, out_ptr, SCALE, FORMAT, IN_HARDWARE), mask=mask)


@triton.jit
def rotary_store_kernel(
    query_ptr, key_ptr, value_ptr, k_out_ptr, v_out_ptr, positions_ptr, cache_ptr, loc_ptr, slots_ptr,
    k_scale, v_scale,
    query_stride, key_stride, value_stride, cache_stride, k_out_stride, v_out_stride,
    QUERY_HEADS: tl.constexpr, KEY_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr, V_WIDTH: tl.constexpr,
    HALF: tl.constexpr, BLOCK_HALF: tl.constexpr, BLOCK_REST: tl.constexpr, NEOX: tl.constexpr,
    RENUMBERED: tl.constexpr, K_SCALE: tl.constexpr, V_SCALE: tl.constexpr, FORMAT: tl.constexpr,
    IN_HARDWARE: tl.constexpr, CACHE: tl.constexpr, EVICTION: tl.constexpr,
    BLOCK_H: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Grid (tokens, blocks of query heads, then of key heads, then of the values' columns).

    `cache` [positions, 2 HALF]: cosines, then sines. RENUMBERED: `slots` says for each slot of `loc` which row it is.
    """
    token = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    QUERY_PARTS: tl.constexpr = (QUERY_HEADS + BLOCK_H - 1) // BLOCK_H
    KEY_PARTS: tl.constexpr = (KEY_HEADS + BLOCK_H - 1) // BLOCK_H
    slot = tl.load(loc_ptr + token).to(tl.int64)
    if RENUMBERED:
        slot = tl.load(slots_ptr + slot, mask=slot >= 0, other=-1).to(tl.int64)
    if part < QUERY_PARTS + KEY_PARTS:
        half = tl.arange(0, BLOCK_HALF)
        row = cache_ptr + tl.load(positions_ptr + token).to(tl.int64) * cache_stride
        cos = tl.load(row + half, mask=half < HALF, other=0.0).to(tl.float32)[None, :]
        sin = tl.load(row + HALF + half, mask=half < HALF, other=0.0).to(tl.float32)[None, :]
        if part < QUERY_PARTS:
            head = part * BLOCK_H + tl.arange(0, BLOCK_H)
            _rotate(
                query_ptr + token * query_stride, head, cos, sin, half, head < QUERY_HEADS, k_out_ptr, k_scale,
                HEAD_DIM, HALF, NEOX, False, K_SCALE, FORMAT, IN_HARDWARE,
            )  # fmt: skip
        else:
            head = (part - QUERY_PARTS) * BLOCK_H + tl.arange(0, BLOCK_H)
            live = head < KEY_HEADS
            key_row = key_ptr + token * key_stride
            if slot >= 0:
                k_row = k_out_ptr + slot * k_out_stride
                _rotate(
                    key_row, head, cos, sin, half, live, k_row, k_scale,
                    HEAD_DIM, HALF, NEOX, True, K_SCALE, FORMAT, IN_HARDWARE,
                )  # fmt: skip
                if BLOCK_REST > 0:
                    rest = 2 * HALF + tl.arange(0, BLOCK_REST)
                    at = head[:, None] * HEAD_DIM + rest[None, :]
                    mask = live[:, None] & (rest < HEAD_DIM)[None, :]
                    unturned = tl.load(key_row + at, mask=mask, other=0.0)
                    tl.store(
                        k_row + at,
                        as_stored(unturned, k_scale, k_out_ptr, K_SCALE, FORMAT, IN_HARDWARE),
                        mask=mask,
                    )
            else:
                _rotate(
                    key_row, head, cos, sin, half, live, k_out_ptr, k_scale,
                    HEAD_DIM, HALF, NEOX, False, K_SCALE, FORMAT, IN_HARDWARE,
                )  # fmt: skip
    else:
        column = (part - QUERY_PARTS - KEY_PARTS) * BLOCK_V + tl.arange(0, BLOCK_V)
        mask = (column < V_WIDTH) & (slot >= 0)
        value_at = value_ptr + token * value_stride + column
        values = tl.load(value_at, mask=mask, other=0.0, cache_modifier=CACHE, eviction_policy=EVICTION)
        stored = as_stored(values, v_scale, v_out_ptr, V_SCALE, FORMAT, IN_HARDWARE)
        tl.store(v_out_ptr + slot * v_out_stride + column, stored, mask=mask)


def rotate_and_store(
    positions: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    head_dim: int,
    cos_sin_cache: torch.Tensor,
    k_out: torch.Tensor,
    v_out: torch.Tensor,
    loc: torch.Tensor,
    k_scale: Scale = None,
    v_scale: Scale = None,
    *,
    neox: bool,
    hardware: Hardware,
    slots: torch.Tensor | None = None,
    launch: Launch | None = None,
) -> None:
    """Rotate `query` [T, Hq * head_dim] and `key` [T, Hk * head_dim] in place, and store the rotated keys and `value`
    [T, V] at rows `loc` int [T] of `k_out` [slots, Hk * head_dim] and `v_out` [slots, V].

    `positions` int [T]; `cos_sin_cache` [positions, r], r <= head_dim even, cosines first. Rows of all may lie apart;
    within a row they are contiguous. `k_out` and `v_out` have one type: keys and values of another are divided by their
    scale (a number or a tensor of one element), and cast; those of the same are stored as they are, as in
    `core.memory.rows.cast_rows`. slots: `loc` names places of it, and it the rows. Rows below zero are not stored.

    Raises ValueError where widths do not fit, or the kernels do not know the type of the cache.
    """
    tokens, half = positions.numel(), cos_sin_cache.shape[-1] // 2
    rows, caches = (key, value), (k_out, v_out)
    if [x.shape[1] for x in rows] != [x.shape[1] for x in caches] or not 0 < 2 * half <= head_dim:
        told = [(tuple(x.shape), x.dtype) for x in (*rows, *caches)]
        raise ValueError(f"keys, values and caches {told}, {2 * half} of {head_dim} columns turned")
    if tokens == 0:
        return
    fp8_format, in_hardware = hardware.fp8(k_out.dtype, query.device)
    if k_out.dtype == key.dtype:
        k_scale = v_scale = None
    k_scale, v_scale = (float(one) if isinstance(one, int) else one for one in (k_scale, v_scale))
    if fp8_format:
        k_out, v_out = k_out.view(torch.uint8), v_out.view(torch.uint8)
    launch = launch or hardware.of(query.device).shapes.elementwise
    query_heads, key_heads = query.shape[-1] // head_dim, key.shape[-1] // head_dim
    block_half = next_power_of_2(half)
    block_h = min(max(launch.elements // (2 * block_half), 1), next_power_of_2(max(query_heads, key_heads)))
    block_v = min(next_power_of_2(value.shape[1]), launch.elements)
    rest = head_dim - 2 * half
    parts = cdiv(query_heads, block_h) + cdiv(key_heads, block_h)
    parts += cdiv(value.shape[1], block_v)
    rotary_store_kernel[(tokens, parts)](
        query, key, value, k_out, v_out, positions, cos_sin_cache, loc, loc if slots is None else slots,
        1.0 if k_scale is None else k_scale, 1.0 if v_scale is None else v_scale,
        query.stride(0), key.stride(0), value.stride(0), cos_sin_cache.stride(0), k_out.stride(0), v_out.stride(0),
        QUERY_HEADS=query_heads, KEY_HEADS=key_heads, HEAD_DIM=head_dim, V_WIDTH=value.shape[1],
        HALF=half, BLOCK_HALF=block_half, BLOCK_REST=next_power_of_2(rest) if rest else 0, NEOX=neox,
        RENUMBERED=slots is not None, K_SCALE=scale_kind(k_scale), V_SCALE=scale_kind(v_scale),
        FORMAT=fp8_format, IN_HARDWARE=in_hardware,
        CACHE=hardware.cache_modifier, EVICTION=hardware.eviction_policy, BLOCK_H=block_h, BLOCK_V=block_v,
        num_warps=launch.num_warps,
    )  # fmt: skip
