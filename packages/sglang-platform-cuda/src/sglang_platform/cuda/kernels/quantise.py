"""Quantisation to fp8 with one scale per token, or per group of a token's values.

    scale = max |x| / largest,   codes = fp8(x / scale)

A row of zeros has scale 1. Division and scale are IEEE float32 and the cast rounds to nearest even, so codes and scales
are bit for bit those of `core.ops.reference.quantise_per_token`.
"""

from __future__ import annotations

from functools import partial

import triton
import triton.language as tl

from sglang_platform.core.portable.triton.wrappers import quantise
from sglang_platform.cuda.kernels.fp8 import HARDWARE, to_fp8_codes

__all__ = ["quantise_kernel", "quantise_per_token"]


@triton.jit(do_not_specialize=["rows"])
def quantise_kernel(
    x_ptr, codes_ptr, scales_ptr, rows, x_stride,
    WIDTH: tl.constexpr, PER_ROW: tl.constexpr, LARGEST: tl.constexpr,
    FORMAT: tl.constexpr, IN_HARDWARE: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Grid (blocks of groups). A row of `x` holds PER_ROW groups of WIDTH values; `rows` counts groups in all."""
    group = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    column = tl.arange(0, BLOCK)
    live = group < rows
    mask = live[:, None] & (column < WIDTH)[None, :]
    start = (group // PER_ROW) * x_stride + (group % PER_ROW) * WIDTH
    x = tl.load(
        x_ptr + start[:, None] + column[None, :], mask=mask, other=0.0, eviction_policy="evict_first"
    ).to(tl.float32)
    # A maximum may drop NaN; torch's keeps it.
    is_nan = tl.max((x != x).to(tl.int32), axis=1) > 0
    largest = tl.max(tl.where(x != x, 0.0, tl.abs(x)), axis=1)
    scale = tl.div_rn(largest, tl.full(largest.shape, LARGEST, tl.float32))
    scale = tl.where(scale == 0.0, 1.0, scale)
    scale = tl.where(is_nan, float("nan"), scale)
    codes = to_fp8_codes(tl.div_rn(x, tl.zeros_like(x) + scale[:, None]), FORMAT, IN_HARDWARE)
    tl.store(codes_ptr + group[:, None] * WIDTH + column[None, :], codes, mask=mask)
    tl.store(scales_ptr + group, scale, mask=live)


quantise_per_token = partial(quantise.quantise_per_token, hardware=HARDWARE, quantise_kernel=quantise_kernel)
"""See `core.portable.triton.wrappers.quantise`."""
