"""Layer norms, RMS norms without a weight or with one shifted, and the activations beside SwiGLU, against float64.

The bound is that of `test_fused_ops`: float32 inside, one rounding.
"""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

UNIT_ROUNDOFF = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
SETTINGS = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)

dtypes = st.sampled_from(list(UNIT_ROUNDOFF))
tokens = st.sampled_from([0, 1, 2, 7, 33])
widths = st.sampled_from([1, 5, 16, 63, 128, 1030])


def normal(*size: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed)).to(dtype)


def assert_close(out: torch.Tensor, oracle: torch.Tensor, scale: float) -> None:
    assert out.shape == oracle.shape
    error, bound = (out.double() - oracle).abs(), UNIT_ROUNDOFF[out.dtype] * oracle.abs() + 2e-6 * scale
    if out.dtype == torch.float16:
        bound = bound + 2.0**-25
    assert bool((error <= bound).all()), f"largest error {float((error - bound).max()):.3g} above the bound"


@SETTINGS
@given(
    rows=tokens, size=widths, dtype=dtypes, with_weight=st.booleans(), with_bias=st.booleans(),
    float_weight=st.booleans(), mean=st.sampled_from([0.0, 30.0]),
)  # fmt: skip
def test_layer_norm(kernels, rows, size, dtype, with_weight, with_bias, float_weight, mean):
    wide = (normal(rows, size + 3, dtype=torch.float32) + mean).to(dtype)
    x, before = wide[:, 3:], wide.clone()  # rows of a wider tensor
    kind = torch.float32 if float_weight else dtype
    weight = normal(size, dtype=kind, seed=1) if with_weight else None
    bias = normal(size, dtype=kind, seed=2) if with_bias else None
    exact = x.double()
    centred = exact - exact.mean(-1, keepdim=True)
    oracle = centred / torch.sqrt(centred.square().mean(-1, keepdim=True) + 1e-5)
    oracle = oracle * (1.0 if weight is None else weight.double()) + (0.0 if bias is None else bias.double())
    out = torch.empty(rows, size, dtype=dtype)
    kernels("layer_norm")(x, weight, bias, 1e-5, out)
    # A difference of numbers near `mean` loses what they have in common, magnified where the row hardly varies.
    spread = 1 / math.sqrt(1e-5) if size < 16 else 10.0
    assert_close(out, oracle, scale=20.0 + mean * spread)
    assert torch.equal(wide, before)


@SETTINGS
@given(
    rows=tokens,
    size=widths,
    dtype=dtypes,
    shift=st.sampled_from([None, 0.5, 1.0]),
    heads=st.sampled_from([1, 3]),
)
def test_rms_norm_with_a_shifted_weight_and_without_one(kernels, rows, size, dtype, shift, heads):
    x = normal(rows, heads * size + 5, dtype=dtype)[:, 5:].unflatten(1, (heads, size))
    weight = None if shift is None else normal(size, dtype=dtype, seed=1)
    exact = x.double()
    oracle = exact / torch.sqrt(exact.square().mean(-1, keepdim=True) + 1e-6)
    if weight is not None:
        oracle = oracle * (weight.double() + shift)
    out = torch.empty(x.shape, dtype=dtype)
    kernels("rms_norm")(x, weight, 1e-6, out, shift or 0.0)
    assert_close(out, oracle, scale=20.0)


@SETTINGS
@given(rows=tokens, size=widths, dtype=dtypes)
def test_fused_add_rms_norm_with_a_shifted_weight(kernels, rows, size, dtype):
    x, residual = normal(rows, size, dtype=dtype), normal(rows, size + 3, dtype=dtype, seed=1)[:, 3:]
    weight, total = normal(size, dtype=dtype, seed=2), x.double() + residual.double()
    kernels("fused_add_rms_norm")(x, residual, weight, 1e-6, 1.0)
    oracle = total / torch.sqrt(total.square().mean(-1, keepdim=True) + 1e-6) * (weight.double() + 1)
    assert_close(residual, total, scale=4.0)
    assert_close(x, oracle, scale=20.0)


def gelu(x: torch.Tensor, tanh: bool) -> torch.Tensor:
    if tanh:
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * torch.special.erfc(-x / math.sqrt(2))


@SETTINGS
@given(rows=tokens, size=widths, dtype=dtypes, tanh=st.booleans(), factor=st.sampled_from([1.0, 60.0]))
def test_gelu_and_mul(kernels, rows, size, dtype, tanh, factor):
    x = (normal(rows, 2 * size + 4, dtype=torch.float32) * factor).to(dtype)[:, 4:]
    gate, up = x.double().chunk(2, dim=-1)
    out = torch.empty(rows, size, dtype=dtype)
    kernels("gelu_and_mul")(x, out, tanh)
    assert_close(out, (gelu(gate, tanh) * up).clamp(-65504, 65504), scale=factor * factor * 4)


PLAIN = {
    "gelu_tanh": lambda x: gelu(x, tanh=True),
    "quick_gelu": lambda x: x / (1 + torch.exp(-1.702 * x)),
    "relu2": lambda x: torch.where(x > 0, x * x, 0.0),
}


@SETTINGS
@given(
    rows=tokens,
    size=widths,
    dtype=dtypes,
    name=st.sampled_from(sorted(PLAIN)),
    factor=st.sampled_from([1.0, 60.0]),
)
def test_activation(kernels, rows, size, dtype, name, factor):
    x = (normal(rows, size + 4, dtype=torch.float32) * factor).to(dtype)[:, 4:]
    out = torch.empty(rows, size, dtype=dtype)
    kernels("activation")(x, out, name)
    assert_close(out, PLAIN[name](x.double()).clamp(-65504, 65504), scale=factor * 4)


def test_an_activation_of_another_name_is_refused(kernels):
    x = torch.zeros(1, 4)
    with pytest.raises(RuntimeError, match="swish"):
        kernels("activation")(x, x.clone(), "swish")
