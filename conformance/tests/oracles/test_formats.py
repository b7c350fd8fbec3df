"""The oracle's number formats, against torch's own conversions and the definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from sglang_platform.conformance.oracles.fp8 import FP8, decode, encode_saturating
from sglang_platform.conformance.oracles.precision import FORMATS
from sglang_platform.conformance.oracles.stored_bytes import raw_bytes, stored_bytes

ALL_BYTES = np.arange(256, dtype=np.uint8)


@pytest.mark.parametrize("dtype", FP8, ids=str)
def test_every_bit_pattern_has_torchs_value(dtype: torch.dtype) -> None:
    theirs = torch.from_numpy(ALL_BYTES.copy()).view(dtype).double().numpy()
    np.testing.assert_array_equal(decode(ALL_BYTES, dtype), theirs)


@pytest.mark.parametrize("dtype", FP8, ids=str)
def test_rounding_in_range_is_torchs(dtype: torch.dtype) -> None:
    largest = FORMATS[dtype].largest
    values = torch.cat(
        (
            torch.linspace(-largest, largest, 5001),
            torch.randn(5000, generator=torch.Generator().manual_seed(0)) * largest**0.25,
            torch.tensor([0.0, 2.0**-7, 2.0**-9, 2.0**-10, 3 * 2.0**-10, 2.0**-17, 1.0625, 1.1875]),
        )
    ).clamp(-largest, largest)
    theirs = values.to(dtype).view(torch.uint8).numpy()
    ours = encode_saturating(values.double().numpy(), dtype)
    np.testing.assert_array_equal(decode(ours, dtype), decode(theirs, dtype))


@pytest.mark.parametrize("dtype", FP8, ids=str)
def test_beyond_the_range_comes_the_largest_value(dtype: torch.dtype) -> None:
    largest = FORMATS[dtype].largest
    ours = decode(encode_saturating(np.array([1e9, -1e9, math.inf, math.nan]), dtype), dtype)
    np.testing.assert_array_equal(ours[:3], [largest, -largest, largest])
    assert math.isnan(ours[3])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, *FP8], ids=str)
def test_the_formats_are_torchs(dtype: torch.dtype) -> None:
    info = torch.finfo(dtype)
    assert FORMATS[dtype].largest == info.max
    if dtype != torch.float8_e5m2fnuz:  # of which torch says half of what two mantissa bits give
        assert FORMATS[dtype].unit_roundoff == info.eps / 2
    assert 2.0 ** FORMATS[dtype].smallest_exponent == info.tiny


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("given", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_stored_bytes_are_torchs(dtype: torch.dtype, given: torch.dtype) -> None:
    numbers = torch.randn(64, 3, 8, generator=torch.Generator().manual_seed(1)).to(given)
    numbers[0, 0, :4] = torch.tensor([1 + 2.0**-9, 1 + 3 * 2.0**-9, -(1 + 2.0**-12), 0.0]).to(given)
    np.testing.assert_array_equal(stored_bytes(numbers, dtype), raw_bytes(numbers.to(dtype)))
    if given != dtype:
        scaled = (numbers.double() / 4).to(given).to(dtype)
        np.testing.assert_array_equal(stored_bytes(numbers, dtype, 4.0), raw_bytes(scaled))


def test_rows_of_the_stored_dtype_are_not_scaled_again() -> None:
    rows = torch.randn(2, 4)
    np.testing.assert_array_equal(stored_bytes(rows, torch.float32, 2.0), raw_bytes(rows))
