"""Rows of a paged cache as the attention kernels read them: floats as they are, 8-bit floats as codes.

The packed rows of sparse MLA (`core.memory.packed_fp8`)::

    | latent: MAIN 8-bit codes | MAIN / 128 float32 scales | rotated part: bfloat16 |

    value = code * scale of its tile
"""

from __future__ import annotations

import triton
import triton.language as tl

from sglang_platform.core.portable.triton.kernels.fp8_codes import from_fp8_codes

__all__ = ["load_rows", "packed_latent", "packed_rest"]


@triton.jit
def load_rows(ptr, offsets, mask, FORMAT: tl.constexpr, IN_HARDWARE: tl.constexpr, DTYPE: tl.constexpr):
    """Elements at `offsets` as DTYPE, zero where not `mask`. `FORMAT`: the 8-bit format of bytes, "" for floats."""
    stored = tl.load(ptr + offsets, mask=mask, other=0)
    if FORMAT == "":
        values = stored.to(DTYPE)
    else:
        values = from_fp8_codes(stored, FORMAT, IN_HARDWARE, DTYPE)
    return values


@triton.jit
def packed_latent(
    base, row, live, MAIN: tl.constexpr, FORMAT: tl.constexpr, IN_HARDWARE: tl.constexpr, DTYPE: tl.constexpr
):
    """Rows at byte offsets `row` [N, 1] from the uint8 pointer `base` -> [N, MAIN] of DTYPE; zeros where not `live`."""
    TILES: tl.constexpr = MAIN // 128
    column = tl.arange(0, MAIN)
    codes = tl.load(base + row + column[None, :], mask=live[:, None], other=0)
    scale_base = (base + MAIN).to(tl.pointer_type(tl.float32))
    scales = tl.load(scale_base + row // 4 + tl.arange(0, TILES)[None, :], mask=live[:, None], other=0.0)
    values = from_fp8_codes(codes, FORMAT, IN_HARDWARE, tl.float32)
    tiles = tl.reshape(values, (values.shape[0], TILES, 128)) * scales[:, :, None]
    return tl.reshape(tiles, (values.shape[0], MAIN)).to(DTYPE)


@triton.jit
def packed_rest(base, row, live, MAIN: tl.constexpr, REST: tl.constexpr, DTYPE: tl.constexpr):
    """The rotated parts [N, REST] of the same rows."""
    rest_base = (base + MAIN + MAIN // 32).to(tl.pointer_type(tl.bfloat16))
    column = tl.arange(0, REST)
    return tl.load(rest_base + row // 2 + column[None, :], mask=live[:, None], other=0.0).to(DTYPE)
