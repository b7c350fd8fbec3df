"""8-bit float codes to wider floats, inside kernels.

A code is sign, exponent, mantissa. Its magnitude bits, placed at the top of a float16's exponent and mantissa, make a
float16 that is too small by a power of two that depends only on the two biases; subnormals come out right by
themselves, because both formats shift the same way there:

    e4m3 (bias 7, fnuz 8):   float16(code[6:0] << 7) * 2^(15 - bias)
    e5m2 (bias 15, fnuz 16): float16(code[6:0] << 8) * 2^(15 - bias)

Exact, and in integer arithmetic, where the architecture has no such types (CDNA2) or not this variant (CDNA3 has fnuz
only, CDNA4 OCP only).
"""

from __future__ import annotations

import triton
import triton.language as tl

from sglang_platform.core.portable.triton.compiler import BY_FLOAT32

__all__ = ["from_fp8_codes"]


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
        if BY_FLOAT32:  # Triton 3.6 fails at fnuz codes
            values = values.to(tl.float32)
        values = values.to(DTYPE)
    else:
        wide = codes.to(tl.uint16)
        bits = ((wide & 0x80) << 8) | ((wide & 0x7F) << (7 if E4M3 else 8))
        BIAS: tl.constexpr = (7 if E4M3 else 15) + (1 if FNUZ else 0)
        UP: tl.constexpr = 2.0 ** (15 - BIAS)
        scaled = bits.to(tl.float16, bitcast=True).to(tl.float32) * UP
        if FNUZ:
            scaled = tl.where(codes == 0x80, float("nan"), scaled)
        elif FORMAT == "e4m3fn":
            scaled = tl.where((codes & 0x7F) == 0x7F, float("nan"), scaled)
        values = scaled.to(DTYPE)
    return values
