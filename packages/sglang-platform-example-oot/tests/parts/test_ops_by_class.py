"""The forwards that are registered by class, called as SGLang calls them, against float64: shapes, types, and what is
left to SGLang."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from sglang_platform.core.ops import described
from sglang_platform.core.ops.fused_op import MoEExperts

from sglang_platform.example_oot import more_ops, ops

FORWARDS = {**ops.FORWARDS, **more_ops.FORWARDS}
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
ROUNDING = {torch.float32: 3e-6, torch.bfloat16: 2.0**-7, torch.float16: 2.0**-10}
ROWS = (0, 1, 33)
EPSILON = 1e-6


def normal(*size: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed)).to(dtype)


def assert_close(got: torch.Tensor, oracle: torch.Tensor, dtype: torch.dtype) -> None:
    assert got.dtype == dtype
    torch.testing.assert_close(got.double(), oracle, rtol=ROUNDING[dtype], atol=4 * ROUNDING[dtype])


def rms(x: torch.Tensor) -> torch.Tensor:
    return x / torch.sqrt(x.square().mean(-1, keepdim=True) + EPSILON)


def norm_op(weight: torch.Tensor, **more: Any) -> Any:
    return SimpleNamespace(weight=weight, variance_epsilon=EPSILON, eps=EPSILON, **more)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("op", [described.GemmaRMSNorm, described.Gemma3RMSNorm])
def test_gemmas_norms_with_and_without_a_residual(op: Any, rows: int, dtype: torch.dtype) -> None:
    weight = normal(48, dtype=dtype, seed=1)
    wide = normal(rows, 2 * 48, dtype=dtype)
    x = wide[:, 48:]  # not contiguous
    assert_close(FORWARDS[op](norm_op(weight), x), rms(x.double()) * (weight.double() + 1), dtype)
    residual = normal(rows, 48, dtype=dtype, seed=2)
    total = x.double() + residual.double()
    got, kept = FORWARDS[op](norm_op(weight), x.clone(), residual)
    assert_close(got, rms(total) * (weight.double() + 1), dtype)
    assert_close(kept, total, dtype)
    assert kept is residual


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("scaled", "shift"), [(False, 0.0), (True, 0.0), (True, 1.0)])
def test_gemma_4s_norm(scaled: bool, shift: float, dtype: torch.dtype) -> None:
    weight, x = normal(48, dtype=dtype, seed=1), normal(7, 3, 48, dtype=dtype).transpose(0, 1)
    got = FORWARDS[described.Gemma4RMSNorm](norm_op(weight, with_scale=scaled, scale_shift=shift), x)
    assert_close(got, rms(x.double()) * ((weight.double() + shift) if scaled else 1.0), dtype)
    assert_close(FORWARDS[described.RMSNormWithoutScale](norm_op(weight), x), rms(x.double()), dtype)


def test_a_norm_whose_weight_is_of_another_type_is_left_to_sglang() -> None:
    op, x = norm_op(normal(8)), normal(2, 8, dtype=torch.bfloat16)
    assert FORWARDS[described.GemmaRMSNorm](op, x) is NotImplemented
    assert FORWARDS[described.GemmaRMSNorm](op, x.float(), x.float(), x.float()) is NotImplemented


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", ROWS)
def test_the_gated_norm_of_mamba_by_groups(rows: int, dtype: torch.dtype) -> None:
    op = norm_op(normal(48, dtype=dtype, seed=1), use_rms_norm=True, n_groups=3, group_size=16, tp_size=1)
    x, gate = normal(rows, 48, dtype=dtype), normal(rows, 96, dtype=dtype, seed=2)[:, ::2]
    exact = x.double() * gate.double() * torch.sigmoid(gate.double())
    oracle = rms(exact.view(rows, 3, 16)).view(rows, 48) * op.weight.double()
    got = FORWARDS[described.Mixer2RMSNormGated](op, x, gate)
    assert_close(got, oracle, dtype)
    op.tp_size = 2  # another rank holds columns of a group
    assert FORWARDS[described.Mixer2RMSNormGated](op, x, gate) is NotImplemented


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize(("affine", "biased"), [(True, True), (True, False), (False, False)])
def test_layer_norm(affine: bool, biased: bool, rows: int, dtype: torch.dtype) -> None:
    op = norm_op(normal(40, dtype=dtype, seed=1), elementwise_affine=affine, use_bias=biased)
    op.bias = normal(40, dtype=dtype, seed=2)
    x = normal(rows, 2, 80, dtype=dtype)[..., ::2]
    exact = x.double()
    centred = exact - exact.mean(-1, keepdim=True)
    oracle = centred / torch.sqrt(centred.square().mean(-1, keepdim=True) + EPSILON)
    oracle = oracle * (op.weight.double() if affine else 1.0) + (op.bias.double() if biased else 0.0)
    assert_close(FORWARDS[described.LayerNorm](op, x), oracle, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", ROWS)
def test_activations(rows: int, dtype: torch.dtype) -> None:
    x = normal(rows, 3, 64, dtype=dtype)[..., 8:40]
    exact = x.double()
    gate, up = exact.chunk(2, dim=-1)
    for approximate in ("none", "tanh"):
        op = SimpleNamespace(approximate=approximate)
        oracle = torch.nn.functional.gelu(gate, approximate=approximate) * up
        assert_close(FORWARDS[described.GeluAndMul](op, x), oracle, dtype)
    plain = {
        described.NewGELU: torch.nn.functional.gelu(exact, approximate="tanh"),
        described.QuickGELU: exact * torch.sigmoid(1.702 * exact),
        described.ReLU2: exact.clamp(min=0).square(),
    }
    for kind, oracle in plain.items():
        assert_close(FORWARDS[kind](SimpleNamespace(), x), oracle, dtype)


def _turned(x: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor, neox: bool) -> torch.Tensor:
    """x [T, H, D] in float64; cosines and sines [T, pairs]."""
    dim = 2 * cosines.shape[-1]
    pairs = torch.arange(dim).view(2, -1) if neox else torch.arange(dim).view(-1, 2).T
    a, b, out = x[..., pairs[0]], x[..., pairs[1]], x.clone()
    out[..., pairs[0]] = a * cosines[:, None] - b * sines[:, None]
    out[..., pairs[1]] = b * cosines[:, None] + a * sines[:, None]
    return out


def _rotary_op(**more: Any) -> Any:
    angles = torch.rand(50, 8, generator=torch.Generator().manual_seed(3)) * 6
    table = torch.cat([angles.cos(), angles.sin()], -1)
    return SimpleNamespace(head_size=24, rotary_dim=16, cos_sin_cache=table, **more)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("neox", [True, False])
def test_the_rotation_of_deepseek_with_offsets(neox: bool, rows: int, dtype: torch.dtype) -> None:
    op = _rotary_op(is_neox_style=neox)
    positions = torch.randint(0, 40, (rows,), generator=torch.Generator().manual_seed(4))
    offsets = torch.randint(0, 10, (rows,), generator=torch.Generator().manual_seed(5))
    query, key = normal(rows, 4, 48, dtype=dtype)[..., :24], normal(rows, 1, 24, dtype=dtype, seed=1)
    cosines, sines = op.cos_sin_cache.double()[positions + offsets].chunk(2, -1)
    wanted = [_turned(x.double(), cosines, sines, neox) for x in (query, key)]
    got = FORWARDS[described.DeepseekScalingRotaryEmbedding](op, positions, query, key, offsets)
    for one, oracle in zip(got, wanted, strict=True):
        assert_close(one, oracle, dtype)


AXES = {False: [0, 0, 0, 0, 1, 1, 2, 2], True: [0, 1, 2, 0, 1, 2, 0, 0]}
"""The axis by which each of the 8 pairs turns, for sections (4, 2, 2), in order or in turn."""


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("neox", [True, False])
def test_the_rotation_by_three_axes(neox: bool, interleaved: bool, rows: int, dtype: torch.dtype) -> None:
    op = _rotary_op(is_neox_style=neox, mrope_section=[4, 2, 2], mrope_interleaved=interleaved)
    positions = torch.randint(0, 50, (3, rows), generator=torch.Generator().manual_seed(4))
    fused = normal(rows, 5 * 24, dtype=dtype)
    query, key = fused[:, : 4 * 24], fused[:, 4 * 24 :]
    table = op.cos_sin_cache.double()
    axes = torch.tensor(AXES[interleaved])
    rows_of_pairs = positions[axes].T  # [T, pairs]
    pairs = torch.arange(8)
    cosines, sines = table[rows_of_pairs, pairs], table[rows_of_pairs, pairs + 8]
    wanted = [_turned(x.double().unflatten(1, (-1, 24)), cosines, sines, neox) for x in (query, key)]
    got = FORWARDS[described.MRotaryEmbedding](op, positions, query, key)
    for one, oracle in zip(got, wanted, strict=True):
        assert_close(one.unflatten(1, (-1, 24)), oracle, dtype)


def test_a_rotation_that_stores_or_has_another_order_is_left_to_sglang() -> None:
    op = _rotary_op(is_neox_style=True, mrope_section=[4, 2, 2], mrope_interleaved=False)
    positions, x = torch.zeros(3, 1, dtype=torch.int64), normal(1, 24)
    assert FORWARDS[described.MRotaryEmbedding](op, positions, x, x, object()) is NotImplemented
    op.mrope_interleaved_glm = True
    assert FORWARDS[described.MRotaryEmbedding](op, positions, x, x) is NotImplemented


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("renormalize", [True, False])
def test_the_choice_of_experts(renormalize: bool, rows: int) -> None:
    config = SimpleNamespace(
        scoring_func=None, use_grouped_topk=False, correction_bias=None, custom_routing_function=None,
        top_k=3, renormalize=renormalize,
    )  # fmt: skip
    logits = normal(rows, 16, dtype=torch.bfloat16)[:, ::2]
    weights, ids = FORWARDS[described.TopK](None, None, logits, config)
    scores = torch.softmax(logits.double(), -1)
    wanted = scores.topk(3, -1).values
    if renormalize:
        wanted = wanted / wanted.sum(-1, keepdim=True)
    assert (weights.dtype, ids.dtype) == (torch.float32, torch.int32)
    torch.testing.assert_close(weights.double(), wanted)
    chosen = scores.gather(1, ids.long())
    torch.testing.assert_close(chosen.sum(-1), scores.topk(3, -1).values.sum(-1))
    config.use_grouped_topk = True
    assert FORWARDS[described.TopK](None, None, logits, config) is NotImplemented


def _gpt_oss_layer(dtype: torch.dtype, experts: int = 6, hidden: int = 24, inner: int = 10) -> Any:
    return SimpleNamespace(
        w13_weight=normal(experts, 2 * inner, hidden, dtype=dtype, seed=1) * 0.3,
        w2_weight=normal(experts, hidden, inner, dtype=dtype, seed=2) * 0.3,
        w13_weight_bias=normal(experts, 2 * inner, dtype=dtype, seed=3),
        w2_weight_bias=normal(experts, hidden, dtype=dtype, seed=4),
    )


def _asked(**more: Any) -> Any:
    said = {
        "activation": "silu",
        "is_gated": True,
        "no_combine": False,
        "apply_router_weight_on_input": False,
    }
    limits = {"gemm1_alpha": 1.702, "gemm1_clamp_limit": 0.7, "swiglu_limit": None}
    return SimpleNamespace(**{**said, **limits, **more})


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [0, 1, 3, 4, 33])  # up to three their weights are gathered
def test_experts_with_biases_and_a_clamped_gate(rows: int, dtype: torch.dtype) -> None:
    layer, x = _gpt_oss_layer(dtype), normal(rows, 24, dtype=dtype)
    ids = (
        torch.stack([torch.randperm(6)[:2] for _ in range(rows)])
        if rows
        else torch.zeros(0, 2, dtype=torch.int64)
    )
    ids = ids.to(torch.int32)
    if rows > 1:
        ids[1, 0] = -1  # an expert of another rank
    weights = torch.rand(rows, 2, generator=torch.Generator().manual_seed(5))
    oracle = torch.zeros(rows, 24, dtype=torch.float64)
    for token in range(rows):
        for weight, expert in zip(weights[token].double(), ids[token].tolist(), strict=True):
            if expert < 0:
                continue
            both = (
                layer.w13_weight[expert].double() @ x[token].double() + layer.w13_weight_bias[expert].double()
            )
            gate, up = both[::2].clamp(max=0.7), both[1::2].clamp(-0.7, 0.7)
            hidden = gate / (1 + torch.exp(-1.702 * gate)) * (up + 1)
            oracle[token] += weight * (
                layer.w2_weight[expert].double() @ hidden + layer.w2_weight_bias[expert].double()
            )
    got = FORWARDS[MoEExperts](SimpleNamespace(with_bias=True), layer, x, weights, ids, _asked())
    assert got.dtype == dtype
    tolerance = 1e-5 if dtype == torch.float32 else 0.03
    torch.testing.assert_close(got.double(), oracle, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("biased", "said"),
    [
        (True, {"gemm1_alpha": None, "gemm1_clamp_limit": None}),
        (True, {"gemm1_clamp_limit": None}),
        (True, {"apply_router_weight_on_input": True}),
        (False, {}),
        (True, {"swiglu_limit": 7.0}),
        (True, {"activation": "gelu"}),
    ],
)
def test_other_experts_are_left_to_sglang(biased: bool, said: dict[str, Any]) -> None:
    op, layer = SimpleNamespace(with_bias=biased), _gpt_oss_layer(torch.float32)
    ids, weights = torch.zeros(1, 2, dtype=torch.int32), torch.ones(1, 2)
    assert FORWARDS[MoEExperts](op, layer, normal(1, 24), weights, ids, _asked(**said)) is NotImplemented
