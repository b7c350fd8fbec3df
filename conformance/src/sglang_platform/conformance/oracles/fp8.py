"""8-bit floats from their definition, without torch's conversions.

Bits: sign, exponent, mantissa. The OCP formats (Micikevicius et al., arXiv 2209.05433): e4m3fn has bias 7, no
infinity, NaN where all other bits are set; e5m2 has bias 15 and IEEE infinities and NaNs. The `fnuz` variants
have a bias larger by one, one NaN at 0x80 and no negative zero (arXiv 2206.02915).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch

__all__ = ["FP8", "decode", "encode_saturating"]

FP8 = (torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz)

_MANTISSA_BITS = {
    torch.float8_e4m3fn: 3,
    torch.float8_e4m3fnuz: 3,
    torch.float8_e5m2: 2,
    torch.float8_e5m2fnuz: 2,
}
_BIAS = {
    torch.float8_e4m3fn: 7,
    torch.float8_e4m3fnuz: 8,
    torch.float8_e5m2: 15,
    torch.float8_e5m2fnuz: 16,
}


@lru_cache(maxsize=4)
def _table(dtype: torch.dtype) -> npt.NDArray[np.float64]:
    """The value of each of the 256 bit patterns."""
    mantissa_bits, bias = _MANTISSA_BITS[dtype], _BIAS[dtype]
    return np.array([_value(bits, mantissa_bits, bias, dtype) for bits in range(256)])


def _value(bits: int, mantissa_bits: int, bias: int, dtype: torch.dtype) -> float:
    sign = -1.0 if bits & 0x80 else 1.0
    magnitude = bits & 0x7F
    exponent, mantissa = magnitude >> mantissa_bits, magnitude & ((1 << mantissa_bits) - 1)
    if dtype in (torch.float8_e4m3fnuz, torch.float8_e5m2fnuz):
        if bits == 0x80:
            return math.nan
    elif dtype == torch.float8_e4m3fn:
        if magnitude == 0x7F:
            return math.nan
    elif exponent == 0x1F:
        return sign * math.inf if mantissa == 0 else math.nan
    fraction = mantissa / (1 << mantissa_bits)
    if exponent == 0:
        return sign * fraction * 2.0 ** (1 - bias)
    return sign * (1 + fraction) * 2.0 ** (exponent - bias)


def decode(bits: npt.NDArray[np.uint8], dtype: torch.dtype) -> npt.NDArray[np.float64]:
    """The values of bytes, any shape."""
    return _table(dtype)[bits]


def encode_saturating(values: npt.NDArray[np.float64], dtype: torch.dtype) -> npt.NDArray[np.uint8]:
    """The nearest pattern, ties to an even mantissa, beyond the range the largest finite value of that sign.

    NaN gives a NaN pattern.
    """
    table = _table(dtype)
    # The non-negative finite patterns are in ascending order of value.
    ascending = np.array([b for b in range(0x80) if math.isfinite(table[b])], dtype=np.uint8)
    magnitudes = table[ascending]
    wanted = np.abs(values)
    wanted = np.minimum(np.where(np.isnan(wanted), 0.0, wanted), magnitudes[-1])
    above = np.minimum(np.searchsorted(magnitudes, wanted), len(magnitudes) - 1)
    below = np.maximum(above - 1, 0)
    gap_above, gap_below = magnitudes[above] - wanted, wanted - magnitudes[below]
    tie_to_below = (gap_above == gap_below) & (below % 2 == 0)
    nearest = np.where((gap_below < gap_above) | tie_to_below, below, above)
    bits = ascending[nearest]
    one_zero = dtype in (torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)
    negative = np.signbit(values) & ~((bits == 0) & one_zero)
    bits = np.where(negative, bits | 0x80, bits).astype(np.uint8)
    a_nan = 0x80 if one_zero else 0x7F
    return np.where(np.isnan(values), np.uint8(a_nan), bits).astype(np.uint8)
