"""8-bit rows two columns at a time, inside kernels.

The matrix unit wants neighbouring tokens of one column in a register; loaded by the byte, each code would come from
shared memory alone. As 16-bit elements they come transposed by `ldmatrix`, and one byte permutation per four codes
sorts them: even columns, odd columns. Then one conversion per two codes (e4m3), or none (e5m2, the upper half of a
float16).
"""

from __future__ import annotations

import triton
import triton.language as tl

from sglang_platform.core.portable.triton.kernels.fp8_codes import from_fp8_codes

__all__ = ["from_fp8_pairs", "load_pairs"]


@triton.jit
def from_fp8_pairs(pairs, FORMAT: tl.constexpr, IN_HARDWARE: tl.constexpr, DTYPE: tl.constexpr):
    """uint16 block, two codes each -> blocks of `DTYPE` of the same shape: the values of the lower and upper codes."""
    if tl.float16 == DTYPE and FORMAT == "e4m3fn" and IN_HARDWARE:
        low, high = tl.inline_asm_elementwise(
            """{
            .reg .b32 sorted;
            .reg .b16 lower, upper;
            prmt.b32 sorted, $2, 0, 0x3120;
            mov.b32 {lower, upper}, sorted;
            cvt.rn.f16x2.e4m3x2 $0, lower;
            cvt.rn.f16x2.e4m3x2 $1, upper;
            }""",
            "=&r,=r,r",
            [pairs],
            dtype=(tl.float16, tl.float16),
            is_pure=True,
            pack=2,
        )
    elif tl.float16 == DTYPE and FORMAT == "e5m2":
        low, high = tl.inline_asm_elementwise(
            """{
            prmt.b32 $0, $2, 0, 0x2404;
            prmt.b32 $1, $2, 0, 0x3414;
            }""",
            "=&r,=r,r",
            [pairs],
            dtype=(tl.float16, tl.float16),
            is_pure=True,
            pack=2,
        )
    else:
        low = from_fp8_codes((pairs & 0xFF).to(tl.uint8), FORMAT, IN_HARDWARE, DTYPE)
        high = from_fp8_codes((pairs >> 8).to(tl.uint8), FORMAT, IN_HARDWARE, DTYPE)
    return low, high


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
