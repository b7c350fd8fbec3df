"""8-bit operands of the matrix cores, inside kernels: unconverted codes, and wider values split into two parts."""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["in_two_parts", "load_codes"]


@triton.jit
def load_codes(ptr, offsets, mask, FORMAT: tl.constexpr):
    """Elements at `offsets` as the 8-bit floats that they are, zero where not `mask`."""
    TYPE: tl.constexpr = tl.float8e4b8 if FORMAT == "e4m3fnuz" else tl.float8e4nv
    return tl.load(ptr + offsets, mask=mask, other=0).to(TYPE, bitcast=True)


@triton.jit
def in_two_parts(x, FORMAT: tl.constexpr):
    """float32 block of bfloat16 values below 128 (256 for e4m3fn) -> two blocks of 8-bit floats, whose sum they are.

    Each has four bits of the eight. What lies below 2^-9 (fnuz 2^-10) is lost: 2^-17 of the largest possible value. Of
    other float32 values the sum is as near as a bfloat16.
    """
    TYPE: tl.constexpr = tl.float8e4b8 if FORMAT == "e4m3fnuz" else tl.float8e4nv
    high = x.to(TYPE)
    return high, (x - high.to(tl.float32)).to(TYPE)
