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

from functools import partial

import triton
import triton.language as tl

from sglang_platform.core.portable.triton.wrappers import rotary_store
from sglang_platform.cuda.kernels.fp8 import HARDWARE
from sglang_platform.cuda.kernels.kv_store import as_stored

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
    IN_HARDWARE: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_V: tl.constexpr,
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
        values = tl.load(
            value_ptr + token * value_stride + column, mask=mask, other=0.0, eviction_policy="evict_first"
        )
        stored = as_stored(values, v_scale, v_out_ptr, V_SCALE, FORMAT, IN_HARDWARE)
        tl.store(v_out_ptr + slot * v_out_stride + column, stored, mask=mask)


rotate_and_store = partial(
    rotary_store.rotate_and_store, hardware=HARDWARE, rotary_store_kernel=rotary_store_kernel
)
"""See `core.portable.triton.wrappers.rotary_store`."""
