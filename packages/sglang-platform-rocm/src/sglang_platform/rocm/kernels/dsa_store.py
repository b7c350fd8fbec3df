"""Storing what DeepSeek sparse attention keeps per token in the packed fp8 form (`core.memory.packed_fp8`).

Per tile of 128 values, scale = max |value| / largest fp8 (1 for a tile of zeros), then fp8(value / scale), in IEEE
float32, so that the bytes are those of core's torch code.
"""

from __future__ import annotations

from functools import partial

import triton
import triton.language as tl

from sglang_platform.core.portable.triton.wrappers import dsa_store
from sglang_platform.rocm.kernels.fp8 import HARDWARE, to_fp8_codes

__all__ = ["store_packed", "store_packed_kernel"]


@triton.jit(do_not_specialize=["n"])
def store_packed_kernel(
    nope_ptr, rope_ptr, values_ptr, scales_ptr, rope_out_ptr, loc_ptr, n,
    nope_stride, rope_stride, row_bytes,
    RANK: tl.constexpr, ROPE: tl.constexpr, ROPE_BLOCK: tl.constexpr, LARGEST: tl.constexpr,
    FORMAT: tl.constexpr, IN_HARDWARE: tl.constexpr, BLOCK_N: tl.constexpr, TILE_WIDTH: tl.constexpr,
):  # fmt: skip
    """Grid (blocks of tokens, RANK / TILE_WIDTH tiles and one for the rotated part).

    `values` uint8, `scales` float32 and `rope_out` bfloat16 are views of the same rows of `row_bytes` bytes.
    """
    tokens = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    live = tokens < n
    slots = tl.load(loc_ptr + tokens, mask=live, other=0).to(tl.int64)
    tile = tl.program_id(1)
    TILES: tl.constexpr = RANK // TILE_WIDTH
    if tile < TILES:
        column = tile * TILE_WIDTH + tl.arange(0, TILE_WIDTH)
        at = tokens[:, None] * nope_stride + column[None, :]
        x = tl.load(nope_ptr + at, mask=live[:, None], other=0.0, cache_modifier=".cg").to(tl.float32)
        # NaN must reach the scale, as it does in torch: a maximum that drops it would hide a broken model.
        is_nan = tl.max((x != x).to(tl.int32), axis=1) > 0
        largest = tl.max(tl.where(x != x, 0.0, tl.abs(x)), axis=1)
        scale = tl.div_rn(largest, tl.full(largest.shape, LARGEST, tl.float32))
        scale = tl.where(scale == 0.0, 1.0, scale)
        scale = tl.where(is_nan, float("nan"), scale)
        codes = to_fp8_codes(tl.div_rn(x, tl.zeros_like(x) + scale[:, None]), FORMAT, IN_HARDWARE)
        tl.store(values_ptr + slots[:, None] * row_bytes + column[None, :], codes, mask=live[:, None])
        tl.store(scales_ptr + slots * (row_bytes // 4) + RANK // 4 + tile, scale, mask=live)
    else:
        # Names of their own: a name of both branches must have one type.
        place = tl.arange(0, ROPE_BLOCK)
        mask = live[:, None] & (place < ROPE)[None, :]
        rope = tl.load(
            rope_ptr + tokens[:, None] * rope_stride + place[None, :], mask=mask, cache_modifier=".cg"
        )
        first: tl.constexpr = (RANK + 4 * TILES) // 2
        row = slots[:, None] * (row_bytes // 2) + first
        tl.store(rope_out_ptr + row + place[None, :], rope.to(tl.bfloat16), mask=mask)


store_packed = partial(dsa_store.store_packed, hardware=HARDWARE, store_packed_kernel=store_packed_kernel)
"""See `core.portable.triton.wrappers.dsa_store`."""
