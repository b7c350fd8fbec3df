"""Unit roundoff and range of each dtype, and the standard error terms that the bounds of the oracles are made of.

A rounding to nearest in a format with p significant bits errs by a factor of at most 1 + u, u = 2^-p, and in the
subnormal range by at most half the smallest subnormal. Source: N. J. Higham, Accuracy and Stability of Numerical
Algorithms, 2nd ed., chapters 2 and 3.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

__all__ = ["FORMATS", "FloatFormat", "format_of", "gamma"]


class FloatFormat(NamedTuple):
    """A binary floating-point format: significant bits (the implicit one included), smallest normal exponent,
    largest finite value."""

    significant_bits: int
    smallest_exponent: int
    largest: float

    @property
    def unit_roundoff(self) -> float:
        """Largest relative error of one rounding to nearest, of a value in the normal range."""
        return 2.0**-self.significant_bits

    @property
    def spacing_of_subnormals(self) -> float:
        return 2.0 ** (self.smallest_exponent - self.significant_bits + 1)


FORMATS: dict[torch.dtype, FloatFormat] = {
    torch.float64: FloatFormat(53, -1022, 1.7976931348623157e308),
    torch.float32: FloatFormat(24, -126, 3.4028234663852886e38),
    torch.float16: FloatFormat(11, -14, 65504.0),
    torch.bfloat16: FloatFormat(8, -126, 3.3895313892515355e38),
    torch.float8_e4m3fn: FloatFormat(4, -6, 448.0),
    torch.float8_e4m3fnuz: FloatFormat(4, -7, 240.0),
    torch.float8_e5m2: FloatFormat(3, -14, 57344.0),
    torch.float8_e5m2fnuz: FloatFormat(3, -15, 57344.0),
}


def format_of(dtype: torch.dtype) -> FloatFormat:
    """The format of `dtype`; KeyError for a dtype that is no float."""
    return FORMATS[dtype]


def gamma(n: int, u: float) -> float:
    """n u / (1 - n u): the relative error of a sum of n rounded terms, in any order (Higham, Lemma 3.1)."""
    return n * u / (1 - n * u)
