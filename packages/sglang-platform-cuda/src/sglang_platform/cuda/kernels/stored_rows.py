"""Rows of a paged cache as the attention kernels read them: floats as they are, 8-bit floats as codes."""

from __future__ import annotations

import triton
import triton.language as tl

from sglang_platform.cuda.kernels.fp8 import from_fp8_codes, from_fp8_pairs

__all__ = ["load_pairs", "load_rows"]


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
def load_pairs(
    ptr, row, mask, COLUMNS: tl.constexpr, LIVE: tl.constexpr, FORMAT: tl.constexpr, IN_HARDWARE: tl.constexpr,
    DTYPE: tl.constexpr,
):  # fmt: skip
    """The first LIVE of COLUMNS columns of the 8-bit rows at `row` [N, 1], both even numbers, as DTYPE: the even
    columns and the odd ones, each [N, COLUMNS // 2]; zero where not `mask` [N, 1]."""
    pair = tl.arange(0, COLUMNS // 2)[None, :]
    at = (ptr + row).to(tl.pointer_type(tl.uint16)) + pair
    if LIVE < COLUMNS:
        mask = mask & (pair < LIVE // 2)
    return from_fp8_pairs(tl.load(at, mask=mask, other=0), FORMAT, IN_HARDWARE, DTYPE)
