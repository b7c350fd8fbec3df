"""Linear layers of few rows against a float64 oracle.

Error bound: float32 sums of K products in any order, then one rounding (Higham 2002, 3.5):
|out - oracle| <= u |oracle| + K 2^-23 (|x| |W|^T + |b|), with u the unit roundoff of the type.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sglang_platform.example_oot.kernels import library

UNIT_ROUNDOFF = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@SETTINGS
@given(
    rows=st.sampled_from([0, 1, 2, 3, 5, 8, 9, 16, 17, 40, 64, 65, 130]),
    columns=st.sampled_from([0, 1, 7, 16, 24, 49, 200]),
    depth=st.sampled_from([1, 5, 16, 31, 255, 256, 300, 513]),
    dtype=st.sampled_from(list(UNIT_ROUNDOFF)), biased=st.booleans(),
)  # fmt: skip
def test_linear(kernels, rows, columns, depth, dtype, biased):
    random = torch.Generator().manual_seed(rows + 7 * columns + 31 * depth)
    wide = [torch.randn(n, depth + 3, generator=random).to(dtype) for n in (rows, columns)]
    x, weight = (w[:, 3:] for w in wide)  # rows of wider matrices
    bias = torch.randn(columns, generator=random).to(dtype) if biased else None
    whole = torch.full((rows, columns + 2), 7.0, dtype=dtype)
    out = whole[:, 1:-1]
    kernels("linear")(x, weight, bias, out)

    b = torch.zeros(columns).double() if bias is None else bias.double()
    oracle = x.double() @ weight.double().T + b
    size = x.double().abs() @ weight.double().abs().T + b.abs()
    bound = UNIT_ROUNDOFF[dtype] * oracle.abs() + depth * 2.0**-23 * size
    if dtype == torch.float16:
        bound = bound + 2.0**-25  # below its normal range float16 rounds to multiples of 2^-24
    assert bool(((out.double() - oracle).abs() <= bound).all())
    assert bool((whole[:, [0, -1]] == 7).all())


@pytest.mark.parametrize("rows", [3, 20])
def test_what_is_no_number_stays_in_its_row_and_column(kernels, rows):
    x, weight, out = torch.randn(rows, 40), torch.randn(33, 40), torch.empty(rows, 33)
    expected = x @ weight.T
    x[1, 39], weight[32, 0] = float("nan"), float("inf")
    kernels("linear")(x, weight, None, out)
    assert bool(out[1].isnan().all())
    assert not bool(out[0, :32].isnan().any())
    others = [0, *range(2, rows)]
    torch.testing.assert_close(out[others, :32], expected[others, :32])
    assert not bool(out[others, 32].isfinite().any())


def test_wrong_arguments_are_named(kernels):
    if kernels("linear") is library.FALLBACKS["linear"]:
        pytest.skip("the plain torch function leaves the checks to torch")
    x, weight, out = torch.randn(2, 4), torch.randn(3, 4), torch.empty(2, 3)
    with pytest.raises(RuntimeError, match="shapes do not fit"):
        kernels("linear")(x, weight[:, :3], None, out)
    with pytest.raises(RuntimeError, match="one type"):
        kernels("linear")(x, weight.bfloat16(), None, out)
    with pytest.raises(RuntimeError, match="contiguous"):
        kernels("linear")(x, torch.randn(4, 3).T, None, out)
