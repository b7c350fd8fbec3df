"""float32 to the codes of the four 8-bit float formats, and back, inside kernels.

`FORMAT` is torch's name of one without `float8_`; `IN_HARDWARE` takes the device's own conversion, where a record says
that it has one (`converts_fp8`). Otherwise integer arithmetic gives the same codes and values.

To a code: round to nearest even; what lies beyond the largest value becomes it, with its sign; NaN becomes NaN. A value
of magnitude 2^(1 - bias) or more is normal: adding half a unit of the last kept place, less one unless that place is
odd, carries into the exponent by itself. A smaller one is rounded to a multiple of 2^(1 - bias - mantissa) by adding
2^23 such multiples in float32, whose own rounding is the one wanted.

From a code: its magnitude bits, placed at the top of a float16's exponent and mantissa, make a float16 that is too
small by a power of two that depends only on the two biases. Subnormals come out right by themselves, because both
formats shift the same way there. This is exact:

    e4m3 (bias 7, fnuz 8):   float16(code[6:0] << 7) * 2^(15 - bias)
    e5m2 (bias 15, fnuz 16): float16(code[6:0] << 8) * 2^(15 - bias)
"""

from __future__ import annotations

import triton
import triton.language as tl

from sglang_platform.core.portable.triton.compiler import BY_FLOAT32

__all__ = ["from_fp8_codes", "scaled_codes", "to_fp8_codes"]


@triton.jit
def to_fp8_codes(x, FORMAT: tl.constexpr, IN_HARDWARE: tl.constexpr):
    """float32 block -> uint8 block of the same shape, the codes of `FORMAT`."""
    FNUZ: tl.constexpr = FORMAT == "e4m3fnuz" or FORMAT == "e5m2fnuz"
    E4M3: tl.constexpr = FORMAT == "e4m3fn" or FORMAT == "e4m3fnuz"
    MANTISSA: tl.constexpr = 3 if E4M3 else 2
    BIAS: tl.constexpr = (7 if E4M3 else 15) + (1 if FNUZ else 0)
    LARGEST: tl.constexpr = (240.0 if FNUZ else 448.0) if E4M3 else 57344.0
    LARGEST_BITS: tl.constexpr = (0x43700000 if FNUZ else 0x43E00000) if E4M3 else 0x47600000
    NAN_CODE: tl.constexpr = 0x80 if FNUZ else 0x7F
    if IN_HARDWARE:
        clamped = tl.minimum(tl.maximum(x, -LARGEST), LARGEST)
        if FORMAT == "e4m3fn":
            codes = clamped.to(tl.float8e4nv).to(tl.uint8, bitcast=True)
        elif FORMAT == "e4m3fnuz":
            codes = clamped.to(tl.float8e4b8).to(tl.uint8, bitcast=True)
        elif FORMAT == "e5m2":
            codes = clamped.to(tl.float8e5).to(tl.uint8, bitcast=True)
        else:
            codes = clamped.to(tl.float8e5b16).to(tl.uint8, bitcast=True)
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
        if FNUZ:
            sign = tl.where(codes == 0, 0, sign)  # the code of a negative zero is NaN here
        codes |= sign
    return tl.where(x != x, NAN_CODE, codes).to(tl.uint8)


@triton.jit
def scaled_codes(x, LARGEST: tl.constexpr, FORMAT: tl.constexpr, IN_HARDWARE: tl.constexpr):
    """float32 [N, C] -> the codes of x / scale, and the scales [N]: max |row| / LARGEST, 1 for a row of zeros."""
    # NaN must reach the scale, as it does in torch: a maximum that drops it would hide a broken model.
    is_nan = tl.max((x != x).to(tl.int32), axis=1) > 0
    largest = tl.max(tl.where(x != x, 0.0, tl.abs(x)), axis=1)
    scale = tl.div_rn(largest, tl.full(largest.shape, LARGEST, tl.float32))
    scale = tl.where(scale == 0.0, 1.0, scale)
    scale = tl.where(is_nan, float("nan"), scale)
    return to_fp8_codes(tl.div_rn(x, tl.zeros_like(x) + scale[:, None]), FORMAT, IN_HARDWARE), scale


@triton.jit
def from_fp8_codes(codes, FORMAT: tl.constexpr, IN_HARDWARE: tl.constexpr, DTYPE: tl.constexpr):
    """uint8 block -> block of `DTYPE` (float32, bfloat16 or float16), the values of the codes of `FORMAT`."""
    FNUZ: tl.constexpr = FORMAT == "e4m3fnuz" or FORMAT == "e5m2fnuz"
    E4M3: tl.constexpr = FORMAT == "e4m3fn" or FORMAT == "e4m3fnuz"
    if IN_HARDWARE:
        if FORMAT == "e4m3fn":
            values = codes.to(tl.float8e4nv, bitcast=True)
        elif FORMAT == "e4m3fnuz":
            values = codes.to(tl.float8e4b8, bitcast=True)
        elif FORMAT == "e5m2":
            values = codes.to(tl.float8e5, bitcast=True)
        else:
            values = codes.to(tl.float8e5b16, bitcast=True)
        if BY_FLOAT32 and (FNUZ or (E4M3 and tl.bfloat16 == DTYPE)):
            values = values.to(tl.float32)
        values = values.to(DTYPE)
    else:
        wide = codes.to(tl.uint16)
        bits = ((wide & 0x80) << 8) | ((wide & 0x7F) << (7 if E4M3 else 8))
        values = bits.to(tl.float16, bitcast=True)
        BIAS: tl.constexpr = (7 if E4M3 else 15) + (1 if FNUZ else 0)
        UP: tl.constexpr = 2.0 ** (15 - BIAS)
        if UP != 1.0:
            values = values.to(tl.float32) * UP
        if FNUZ:
            values = tl.where(codes == 0x80, float("nan"), values)
        elif E4M3:
            values = tl.where((codes & 0x7F) == 0x7F, float("nan"), values)
        values = values.to(DTYPE)
    return values
