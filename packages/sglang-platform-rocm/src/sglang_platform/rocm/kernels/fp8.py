"""float32 to the four 8-bit float formats, inside kernels.

Round to nearest even; what lies beyond the largest value becomes it, with its sign; NaN becomes NaN. `IN_HARDWARE`
takes the architecture's conversion (`converts_fp8` of its record): CDNA3 has the fnuz formats, CDNA4 the OCP ones.
Otherwise integer arithmetic on the bits of the float32 gives the same codes; CDNA2 has no 8-bit floats at all.

A value of magnitude 2^(1 - bias) or more is normal: adding half a unit of the last kept place, less one unless that
place is odd, carries into the exponent by itself. A smaller one is rounded to a multiple of 2^(1 - bias - mantissa)
by adding 2^23 such multiples in float32, whose own rounding is the one wanted.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sglang_platform.core.portable.triton.wrappers.hardware import Hardware
from sglang_platform.rocm.kernels.tuning import ARCHITECTURES

__all__ = ["HARDWARE", "to_fp8_codes"]

HARDWARE = Hardware(
    ARCHITECTURES,
    {
        torch.float8_e4m3fn: "e4m3fn",
        torch.float8_e4m3fnuz: "e4m3fnuz",
        torch.float8_e5m2: "e5m2",
        torch.float8_e5m2fnuz: "e5m2fnuz",
    },
)
"""The architectures, and the 8-bit formats of their caches."""


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
