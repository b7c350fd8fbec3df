"""The oracles of the fused ops against torch, complex rotations and loops."""

from __future__ import annotations

import pytest
import torch

from sglang_platform.conformance.oracles import ops
from sglang_platform.conformance.oracles.attention import worst_element

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def _random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rms_norm(dtype: torch.dtype) -> None:
    x, weight = _random(5, 200, dtype=dtype), _random(200, seed=1, dtype=dtype)
    expected = ops.rms_norm(x, weight, 1e-3)
    exact = torch.nn.functional.rms_norm(x.double(), (200,), weight.double(), 1e-3)
    torch.testing.assert_close(expected.value, exact)
    rounded = torch.nn.functional.rms_norm(x.float(), (200,), None, 1e-3).to(dtype) * weight
    assert worst_element(rounded, expected)[0] <= 1
    assert (
        float((expected.bound / expected.value.abs().clamp(min=1e-3)).max())
        < {
            torch.float32: 1e-4,
            torch.float16: 5e-3,
            torch.bfloat16: 4e-2,
        }[dtype]
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_fused_add_rms_norm_rounded_before_or_after(dtype: torch.dtype) -> None:
    x, residual, weight = (_random(4, 64, seed=s, dtype=dtype) for s in range(3))
    normalised, total = ops.fused_add_rms_norm(x, residual, weight[0], 1e-5)
    for early in (True, False):
        added = x.float() + residual.float()
        if early:
            added = added.to(dtype).float()
        out = torch.nn.functional.rms_norm(added, (64,), weight[0].float(), 1e-5).to(dtype)
        assert worst_element(out, normalised)[0] <= 1
        assert worst_element(added.to(dtype), total)[0] <= 1


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_silu_and_mul(dtype: torch.dtype) -> None:
    x = _random(9, 96, dtype=dtype) * 8
    expected = ops.silu_and_mul(x)
    gate, up = x.chunk(2, dim=-1)
    torch.testing.assert_close(expected.value, torch.nn.functional.silu(gate.double()) * up.double())
    assert worst_element(torch.nn.functional.silu(gate) * up, expected)[0] <= 1


@pytest.mark.parametrize("neox", [True, False])
@pytest.mark.parametrize("rotary_dim", [8, 16])
def test_rotary_embedding_is_a_complex_product(neox: bool, rotary_dim: int) -> None:
    positions = torch.tensor([0, 3, 11])
    angles = torch.arange(12)[:, None] / 10.0 ** torch.arange(rotary_dim // 2)
    cache = torch.cat((angles.cos(), angles.sin()), dim=-1).double()
    x = _random(3, 2 * 16).double()
    expected = ops.rotary_embedding(positions, x, 16, cache, neox).value.reshape(3, 2, 16)
    heads = x.reshape(3, 2, 16)
    turn = torch.polar(torch.ones_like(angles[positions]).double(), angles[positions].double())[:, None, :]
    part = heads[..., :rotary_dim]
    a, b = part.chunk(2, dim=-1) if neox else (part[..., ::2], part[..., 1::2])
    turned = torch.complex(a, b) * turn
    got_a, got_b = (
        expected[..., :rotary_dim].chunk(2, dim=-1)
        if neox
        else (
            expected[..., :rotary_dim:2],
            expected[..., 1:rotary_dim:2],
        )
    )
    torch.testing.assert_close(torch.complex(got_a, got_b), turned)
    torch.testing.assert_close(expected[..., rotary_dim:], heads[..., rotary_dim:])


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_per_token_fp8(dtype: torch.dtype) -> None:
    x = (
        _random(6, 128, dtype=torch.bfloat16)
        * torch.tensor([1e-3, 1.0, 30.0, 5.0, 0.1, 2.0])[:, None].bfloat16()
    )
    dequantised, scales = ops.per_token_fp8(x, dtype)
    scale = x.float().abs().amax(-1, keepdim=True) / torch.finfo(dtype).max
    got = (x.float() / scale).to(dtype).float() * scale
    assert worst_element(got, dequantised)[0] <= 1
    assert worst_element(scale, scales)[0] <= 1
    assert worst_element((x.float() / scale / 2).to(dtype).float() * scale, dequantised)[0] > 1


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_moe_experts(dtype: torch.dtype) -> None:
    x = _random(7, 32, dtype=dtype)
    w13, w2 = _random(4, 48, 32, seed=1, dtype=dtype) * 0.2, _random(4, 32, 24, seed=2, dtype=dtype) * 0.2
    ids = torch.stack([torch.randperm(4, generator=torch.Generator().manual_seed(t))[:2] for t in range(7)])
    weights = torch.rand(7, 2, generator=torch.Generator().manual_seed(9))
    expected = ops.moe_experts(x, w13, w2, weights, ids)
    got = torch.zeros(7, 32, dtype=torch.float32)
    for token in range(7):
        for choice in range(2):
            expert = int(ids[token, choice])
            gate, up = (w13[expert] @ x[token]).chunk(2)
            h = torch.nn.functional.silu(gate) * up
            got[token] += weights[token, choice] * (w2[expert] @ h).float()
    assert worst_element(got.to(dtype), expected)[0] <= 1
