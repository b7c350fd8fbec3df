"""Norms, rotary embedding, activation and the KV store against float64 oracles.

Error bound: every kernel computes in float32 and rounds once, so |out - oracle| <= u |oracle| + 2e-6 scale, with u the
unit roundoff of the output's type and `scale` the size of the terms that were added.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

UNIT_ROUNDOFF = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
SETTINGS = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)

dtypes = st.sampled_from(list(UNIT_ROUNDOFF))
tokens = st.sampled_from([0, 1, 2, 7, 33])


def normal(*size: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed)).to(dtype)


def assert_close(out: torch.Tensor, oracle: torch.Tensor, scale: float = 4.0) -> None:
    assert out.shape == oracle.shape
    error, bound = (out.double() - oracle).abs(), UNIT_ROUNDOFF[out.dtype] * oracle.abs() + 2e-6 * scale
    if out.dtype == torch.float16:
        bound = bound + 2.0**-25  # below its normal range float16 rounds to multiples of 2^-24
    assert bool((error <= bound).all()), f"largest error {float(error.max()):.3g}"


def normalised(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    x = x.double()
    return x / torch.sqrt(x.square().mean(-1, keepdim=True) + eps) * weight.double()


@SETTINGS
@given(
    rows=tokens, heads=st.sampled_from([None, 1, 3]), size=st.sampled_from([1, 5, 16, 63, 128, 2049]), dtype=dtypes,
    float_weight=st.booleans(), in_place=st.booleans(),
)  # fmt: skip
def test_rms_norm(kernels, rows, heads, size, dtype, float_weight, in_place):
    wide = normal(rows, (heads or 1) * size + 6, dtype=dtype)
    x = wide[:, 6:]  # rows of a fused tensor
    if heads is not None:
        x = x.unflatten(1, (heads, size))
    weight = normal(size, dtype=torch.float32 if float_weight else dtype, seed=1)
    oracle, untouched = normalised(x, weight, 1e-6), wide[:, :6].clone()
    out = x if in_place else torch.empty(x.shape, dtype=dtype)
    kernels("rms_norm")(x, weight, 1e-6, out)
    assert_close(out, oracle, scale=20.0)
    assert torch.equal(wide[:, :6], untouched)


@SETTINGS
@given(rows=tokens, size=st.sampled_from([1, 24, 257, 1024]), dtype=dtypes, float_weight=st.booleans())
def test_fused_add_rms_norm(kernels, rows, size, dtype, float_weight):
    x, residual = normal(rows, size, dtype=dtype), normal(rows, size + 3, dtype=dtype, seed=1)[:, 3:]
    weight = normal(size, dtype=torch.float32 if float_weight else dtype, seed=2)
    total = x.double() + residual.double()
    kernels("fused_add_rms_norm")(x, residual, weight, 1e-5)
    assert_close(residual, total)
    assert_close(x, normalised(total, weight, 1e-5), scale=20.0)


def test_norm_of_a_zero_row_is_zero(kernels):
    x = torch.zeros(2, 64, dtype=torch.bfloat16)
    out = torch.full_like(x, 3.0)
    kernels("rms_norm")(x, torch.ones(64), 1e-6, out)
    assert bool((out == 0).all())


@SETTINGS
@given(
    rows=tokens, size=st.sampled_from([1, 16, 70, 5000]), dtype=dtypes, factor=st.sampled_from([1.0, 60.0])
)
def test_silu_and_mul(kernels, rows, size, dtype, factor):
    x = (normal(rows, 2 * size + 4, dtype=torch.float32) * factor).to(dtype)[:, 4:]
    out = torch.empty(rows, size, dtype=dtype)
    gate, up = x.double().chunk(2, dim=-1)
    kernels("silu_and_mul")(x, out)
    oracle = (torch.nn.functional.silu(gate) * up).clamp(-65504, 65504)
    assert_close(out, oracle, scale=factor * factor * 4)


@SETTINGS
@given(
    rows=tokens, q_heads=st.sampled_from([1, 4, 7]), k_heads=st.sampled_from([1, 2]),
    sizes=st.sampled_from([(8, 8), (64, 64), (128, 128), (64, 24), (80, 20)]), dtype=dtypes, neox=st.booleans(),
    three_dimensions=st.booleans(), cache_in_type=st.booleans(), short_positions=st.booleans(),
)  # fmt: skip
def test_rotary_embedding(
    kernels, rows, q_heads, k_heads, sizes, dtype, neox, three_dimensions, cache_in_type, short_positions
):
    head_size, rotary_dim = sizes
    angles = torch.rand(50, rotary_dim // 2, generator=torch.Generator().manual_seed(3)) * 7
    cache = torch.cat([angles.cos(), angles.sin()], -1).to(dtype if cache_in_type else torch.float32)
    positions = torch.randint(0, 50, (rows,), generator=torch.Generator().manual_seed(4))
    qkv = normal(rows, (q_heads + 2 * k_heads) * head_size, dtype=dtype)
    before = qkv.clone()
    q, k, v = qkv.split([q_heads * head_size, k_heads * head_size, k_heads * head_size], dim=1)

    turned = before.double().unflatten(1, (-1, head_size))[:, : q_heads + k_heads]
    pairs = torch.arange(rotary_dim).view(2, -1) if neox else torch.arange(rotary_dim).view(-1, 2).T
    a, b = turned[..., pairs[0]], turned[..., pairs[1]]
    cosines, sines = cache.double()[positions][:, None].chunk(2, dim=-1)
    oracle = turned.clone()
    oracle[..., pairs[0]], oracle[..., pairs[1]] = a * cosines - b * sines, b * cosines + a * sines

    views = [x.unflatten(1, (-1, head_size)) if three_dimensions else x for x in (q, k)]
    kernels("rotary_embedding")(
        positions.int() if short_positions else positions, *views, head_size, cache, neox
    )
    assert_close(qkv.unflatten(1, (-1, head_size))[:, : q_heads + k_heads], oracle)
    assert torch.equal(v, before[:, -v.shape[1] :])


def test_rotary_embedding_refuses_a_position_outside_its_cache(kernels):
    q = torch.zeros(1, 8)
    with pytest.raises(IndexError):
        kernels("rotary_embedding")(torch.tensor([5]), q, q.clone(), 8, torch.zeros(5, 8), True)


@SETTINGS
@given(
    rows=tokens, heads=st.sampled_from([1, 3]), dims=st.sampled_from([(8, 8), (64, 48), (5, 3)]), dtype=dtypes
)
def test_store_kv(kernels, rows, heads, dims, dtype):
    dim, v_dim = dims
    qkv = normal(rows, heads * (dim + v_dim) + 2, dtype=dtype)
    k = qkv[:, 2 : 2 + heads * dim].unflatten(1, (heads, dim))
    v = qkv[:, 2 + heads * dim :].unflatten(1, (heads, v_dim))
    k_buffer, v_buffer = (
        torch.full((60, heads, dim), 9, dtype=dtype),
        torch.full((60, heads, v_dim), 9, dtype=dtype),
    )
    loc = torch.randperm(60, generator=torch.Generator().manual_seed(5))[:rows]
    kernels("store_kv")(k, v, k_buffer, v_buffer, loc)
    assert torch.equal(k_buffer[loc], k)
    assert torch.equal(v_buffer[loc], v)
    others = torch.ones(60, dtype=torch.bool)
    others[loc] = False
    assert bool((k_buffer[others] == 9).all())
    assert bool((v_buffer[others] == 9).all())


def test_store_kv_into_buffers_with_gaps_between_slots(kernels):
    """Keys and values side by side in one tensor, as some pools keep them."""
    pool = torch.zeros(10, 2, 24)
    k, v = torch.randn(3, 2, 16), torch.randn(3, 2, 8)
    kernels("store_kv")(k, v, pool[..., :16], pool[..., 16:], torch.tensor([4, 2, 9], dtype=torch.int32))
    assert torch.equal(pool[[4, 2, 9]], torch.cat([k, v], -1))


@pytest.mark.parametrize("slot", [-1, 10])
def test_store_kv_refuses_a_slot_outside_the_buffers(kernels, slot):
    buffer = torch.zeros(10, 1, 4)
    with pytest.raises(IndexError):
        kernels("store_kv")(
            torch.ones(1, 1, 4), torch.ones(1, 1, 4), buffer, buffer.clone(), torch.tensor([slot])
        )
    assert bool((buffer == 0).all())


def test_store_kv_refuses_another_type(kernels):
    buffer = torch.zeros(10, 1, 4, dtype=torch.float16)
    with pytest.raises(RuntimeError):
        kernels("store_kv")(
            torch.ones(1, 1, 4), torch.ones(1, 1, 4), buffer, buffer.clone(), torch.tensor([1])
        )
