"""float32 to the 8-bit floats of NVIDIA's GPUs, e4m3 and e5m2, and back, inside kernels.

To a code: round to nearest even; what lies beyond the largest value becomes it, with its sign; NaN becomes NaN.
`IN_HARDWARE` takes the conversion that Ada and later have (`converts_fp8` of a record). On Ampere, which has no 8-bit
floats, integer arithmetic on the bits of the float32 gives the same codes. A value of magnitude 2^(1 - bias) or more is
normal: adding half a unit of the last kept place, less one unless that place is odd, carries into the exponent by
itself. A smaller one is rounded to a multiple of 2^(1 - bias - mantissa) by adding 2^23 such multiples in float32,
whose own rounding is the one wanted.

From a code: e5m2 is the upper half of a float16. The magnitude bits of e4m3, placed at the top of a float16's exponent
and mantissa, make one that is 2^8 too small; subnormals come out right by themselves, because both formats shift the
same way there. Both are exact.

`from_fp8_pairs` widens rows that were loaded two columns at a time. The matrix unit wants neighbouring tokens of one
column in a register; loaded by the byte, each code would come from shared memory alone. As 16-bit elements they come
transposed by `ldmatrix`, and one byte permutation per four codes sorts them: even columns, odd columns. Then one
conversion per two codes (e4m3), or none (e5m2).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sglang_platform.core.portable.triton.compiler import BY_FLOAT32
from sglang_platform.core.portable.triton.wrappers.hardware import Hardware
from sglang_platform.cuda.kernels.tuning import ARCHITECTURES

__all__ = ["HARDWARE", "from_fp8_codes", "from_fp8_pairs", "to_fp8_codes"]

HARDWARE = Hardware(ARCHITECTURES, {torch.float8_e4m3fn: "e4m3fn", torch.float8_e5m2: "e5m2"})
"""The architectures, and the 8-bit formats of their caches."""


@triton.jit
def to_fp8_codes(x, FORMAT: tl.constexpr, IN_HARDWARE: tl.constexpr):
    """float32 block -> uint8 block of the same shape, the codes of `FORMAT`."""
    E4M3: tl.constexpr = FORMAT == "e4m3fn"
    MANTISSA: tl.constexpr = 3 if E4M3 else 2
    BIAS: tl.constexpr = 7 if E4M3 else 15
    LARGEST: tl.constexpr = 448.0 if E4M3 else 57344.0
    LARGEST_BITS: tl.constexpr = 0x43E00000 if E4M3 else 0x47600000
    if IN_HARDWARE:
        clamped = tl.minimum(tl.maximum(x, -LARGEST), LARGEST)
        if E4M3:
            codes = clamped.to(tl.float8e4nv).to(tl.uint8, bitcast=True)
        else:
            codes = clamped.to(tl.float8e5).to(tl.uint8, bitcast=True)
        codes = codes.to(tl.int32)
    else:
        bits = x.to(tl.int32, bitcast=True)
        magnitude = tl.minimum(bits & 0x7FFFFFFF, LARGEST_BITS)
        kept_odd = (magnitude >> (23 - MANTISSA)) & 1
        rounded = magnitude + ((1 << (22 - MANTISSA)) - 1) + kept_odd
        normal = (rounded >> (23 - MANTISSA)) - ((127 - BIAS) << MANTISSA)
        MULTIPLES_BITS: tl.constexpr = (151 - BIAS - MANTISSA) << 23
        multiples = tl.full(bits.shape, MULTIPLES_BITS, tl.int32).to(tl.float32, bitcast=True)
        subnormal = (magnitude.to(tl.float32, bitcast=True) + multiples).to(tl.int32, bitcast=True)
        subnormal -= MULTIPLES_BITS
        codes = tl.where(magnitude < ((128 - BIAS) << 23), subnormal, normal)
        sign = (bits >> 24) & 0x80
        codes |= sign
    return tl.where(x != x, 0x7F, codes).to(tl.uint8)


@triton.jit
def from_fp8_codes(codes, FORMAT: tl.constexpr, IN_HARDWARE: tl.constexpr, DTYPE: tl.constexpr):
    """uint8 block -> block of `DTYPE` (float32, bfloat16 or float16), the values of the codes of `FORMAT`."""
    if IN_HARDWARE:
        if FORMAT == "e4m3fn":
            values = codes.to(tl.float8e4nv, bitcast=True)
            if BY_FLOAT32 and tl.bfloat16 == DTYPE:  # Ada lacks Triton 3.6's instruction
                values = values.to(tl.float32)
        else:
            values = codes.to(tl.float8e5, bitcast=True)
        values = values.to(DTYPE)
    else:
        wide = codes.to(tl.uint16)
        if FORMAT == "e4m3fn":
            bits = ((wide & 0x80) << 8) | ((wide & 0x7F) << 7)
            scaled = bits.to(tl.float16, bitcast=True).to(tl.float32) * 256.0
            values = tl.where((codes & 0x7F) == 0x7F, float("nan"), scaled).to(DTYPE)
        else:
            values = (wide << 8).to(tl.float16, bitcast=True).to(DTYPE)
    return values


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
