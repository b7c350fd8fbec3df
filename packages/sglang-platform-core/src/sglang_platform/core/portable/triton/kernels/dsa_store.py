"""Storing what DeepSeek sparse attention keeps per token in the packed fp8 form (`core.memory.packed_fp8`).

Per tile of 128 values, scale = max |value| / largest fp8 (1 for a tile of zeros), then fp8(value / scale), in IEEE
float32, so that the bytes are those of core's torch code.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sglang_platform.core.memory.packed_fp8 import TILE
from sglang_platform.core.portable.triton.architecture import Launch
from sglang_platform.core.portable.triton.kernels.fp8_codes import scaled_codes
from sglang_platform.core.portable.triton.launch import cdiv, next_power_of_2
from sglang_platform.core.portable.triton.wrappers.hardware import Hardware

__all__ = ["store_packed", "store_packed_kernel"]


@triton.jit(do_not_specialize=["n"])
def store_packed_kernel(
    nope_ptr, rope_ptr, values_ptr, scales_ptr, rope_out_ptr, loc_ptr, n,
    nope_stride, rope_stride, row_bytes,
    RANK: tl.constexpr, ROPE: tl.constexpr, ROPE_BLOCK: tl.constexpr, LARGEST: tl.constexpr,
    FORMAT: tl.constexpr, IN_HARDWARE: tl.constexpr, CACHE: tl.constexpr, EVICTION: tl.constexpr,
    BLOCK_N: tl.constexpr, TILE_WIDTH: tl.constexpr,
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
        nope = nope_ptr + tokens[:, None] * nope_stride + column[None, :]
        x = tl.load(nope, mask=live[:, None], other=0.0, cache_modifier=CACHE, eviction_policy=EVICTION)
        codes, scale = scaled_codes(x.to(tl.float32), LARGEST, FORMAT, IN_HARDWARE)
        tl.store(values_ptr + slots[:, None] * row_bytes + column[None, :], codes, mask=live[:, None])
        tl.store(scales_ptr + slots * (row_bytes // 4) + RANK // 4 + tile, scale, mask=live)
    else:
        # Names of their own: a name of both branches must have one type.
        place = tl.arange(0, ROPE_BLOCK)
        mask = live[:, None] & (place < ROPE)[None, :]
        rope_at = rope_ptr + tokens[:, None] * rope_stride + place[None, :]
        rope = tl.load(rope_at, mask=mask, cache_modifier=CACHE, eviction_policy=EVICTION)
        first: tl.constexpr = (RANK + 4 * TILES) // 2
        row = slots[:, None] * (row_bytes // 2) + first
        tl.store(rope_out_ptr + row + place[None, :], rope.to(tl.bfloat16), mask=mask)


def store_packed(
    nope: torch.Tensor,
    rope: torch.Tensor,
    out: torch.Tensor,
    loc: torch.Tensor,
    *,
    hardware: Hardware,
    dtype: torch.dtype,
    launch: Launch | None = None,
) -> None:
    """Pack `nope` [n, 1, rank] and `rope` [n, 1, r] into rows `loc` [n] of `out`, uint8 [slots, 1, row bytes].

    `dtype` is the fp8 type of the values; `rank` is a multiple of 128, `r` even. Raises ValueError where the kernels do
    not know `dtype`.
    """
    n = loc.numel()
    if n == 0:
        return
    launch = launch or hardware.of(loc.device).store
    nope = nope if nope.stride(-1) == 1 else nope.contiguous()
    rope = rope if rope.stride(-1) == 1 else rope.contiguous()
    rank, width = nope.shape[-1], rope.shape[-1]
    fp8_format, in_hardware = hardware.fp8(dtype, nope.device)
    block_n = min(max(launch.elements // TILE, 1), next_power_of_2(n))
    grid = (cdiv(n, block_n), rank // TILE + (1 if width else 0))
    store_packed_kernel[grid](
        nope, rope, out, out.view(torch.float32), out.view(torch.bfloat16), loc, n,
        nope.stride(0), rope.stride(0), out.stride(0),
        RANK=rank, ROPE=width, ROPE_BLOCK=next_power_of_2(max(width, 1)),
        LARGEST=torch.finfo(dtype).max, FORMAT=fp8_format, IN_HARDWARE=in_hardware,
        CACHE=hardware.cache_modifier, EVICTION=hardware.eviction_policy, BLOCK_N=block_n, TILE_WIDTH=TILE,
        num_warps=launch.num_warps,
    )  # fmt: skip
