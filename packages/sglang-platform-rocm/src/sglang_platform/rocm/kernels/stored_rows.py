"""Rows of a paged cache as the attention kernels read them: floats as they are, 8-bit floats as codes."""

from __future__ import annotations

import triton
import triton.language as tl

from sglang_platform.rocm.kernels.fp8_values import from_fp8_codes

__all__ = ["load_rows"]


@triton.jit
def load_rows(ptr, offsets, mask, FORMAT: tl.constexpr, IN_HARDWARE: tl.constexpr, DTYPE: tl.constexpr):
    """Elements at `offsets` as DTYPE, zero where not `mask`. `FORMAT`: the 8-bit format of bytes, "" for floats."""
    stored = tl.load(ptr + offsets, mask=mask, other=0)
    if FORMAT == "":
        values = stored.to(DTYPE)
    else:
        values = from_fp8_codes(stored, FORMAT, IN_HARDWARE, DTYPE)
    return values
