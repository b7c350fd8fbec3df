"""The attention oracle against loops over numbers and torch's own attention, and its bound against real rounding."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from sglang_platform.conformance.oracles.attention import AttentionRule, attention, worst_element


def _random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def _by_loops(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    rule: AttentionRule,
    first: int,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """The definition, one number after another."""
    out = torch.zeros(q.shape[0], q.shape[1], v.shape[2], dtype=torch.float64)
    group = q.shape[1] // k.shape[1]
    for i in range(q.shape[0]):
        for h in range(q.shape[1]):
            weights = {}
            for j in range(k.shape[0]):
                if rule.causal and j > first + i:
                    continue
                if rule.window is not None and j < first + i - rule.window:
                    continue
                score = rule.scale * sum(
                    float(a) * float(b) for a, b in zip(q[i, h], k[j, h // group], strict=True)
                )
                if rule.soft_cap:
                    score = rule.soft_cap * math.tanh(score / rule.soft_cap)
                weights[j] = math.exp(score)
            total = sum(weights.values()) + (math.exp(float(sinks[h])) if sinks is not None else 0.0)
            for j, weight in weights.items():
                out[i, h] += weight / total * v[j, h // group].double()
    return out


@pytest.mark.parametrize(
    ("rule", "first", "with_sinks"),
    [
        (AttentionRule(0.3), 0, False),
        (AttentionRule(0.3), 4, False),
        (AttentionRule(0.3, window=0), 4, False),
        (AttentionRule(0.3, window=2), 1, False),
        (AttentionRule(0.7, soft_cap=1.5), 4, False),
        (AttentionRule(0.7, soft_cap=1.5, window=3), 4, True),
        (AttentionRule(0.3, causal=False), 0, False),
        (AttentionRule(0.3), 4, True),
    ],
)
def test_it_is_the_definition(rule: AttentionRule, first: int, with_sinks: bool) -> None:
    q, k, v = _random(3, 4, 5, seed=1), _random(first + 3, 2, 5, seed=2), _random(first + 3, 2, 6, seed=3)
    sinks = _random(4, seed=4) if with_sinks else None
    rule = replace(rule, sinks=sinks)
    expected = attention(q, k, v, rule, first_position=first, dtype=torch.float32)
    torch.testing.assert_close(expected.value, _by_loops(q, k, v, rule, first, sinks), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("first", [0, 9])
def test_it_is_torchs_attention(first: int) -> None:
    q, k, v = _random(7, 6, 16, seed=1), _random(first + 7, 2, 16, seed=2), _random(first + 7, 2, 16, seed=3)
    mask = torch.ones(7, first + 7, dtype=torch.bool).tril(diagonal=first)
    theirs = torch.nn.functional.scaled_dot_product_attention(
        q.double().transpose(0, 1),
        k.double().transpose(0, 1).repeat_interleave(3, 0),
        v.double().transpose(0, 1).repeat_interleave(3, 0),
        attn_mask=mask,
        scale=0.25,
    ).transpose(0, 1)
    ours = attention(q, k, v, AttentionRule(0.25), first_position=first, dtype=torch.float32)
    torch.testing.assert_close(ours.value, theirs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", ["all in the element type", "float32 inside"])
def test_honest_rounding_is_within_the_bound_and_the_bound_is_not_lax(dtype: torch.dtype, kind: str) -> None:
    for seed, (n, dim) in enumerate([(1, 16), (17, 64), (130, 128), (600, 64)]):
        q, k, v = (_random(n if s else 1, 2, dim, seed=10 * seed + s, dtype=dtype) for s in range(3))
        expected = attention(q, k, v, AttentionRule(dim**-0.5), first_position=n - 1, dtype=dtype)
        work = dtype if kind != "float32 inside" else torch.float32
        scores = torch.einsum("ihd,jhd->hij", (q * dim**-0.5).to(work), k.to(work))
        weights = torch.softmax(scores.float(), dim=-1).to(work)
        got = torch.einsum("hij,jhd->ihd", weights, v.to(work)).to(dtype)
        ratio, _ = worst_element(got, expected)
        assert ratio <= 1
        size = float(v.abs().max())
        assert (
            float(expected.bound.max())
            < {torch.float32: 2e-4, torch.float16: 0.05, torch.bfloat16: 0.4}[dtype] * size
        )


def test_what_is_not_finite_is_infinitely_wrong() -> None:
    q, k, v = _random(1, 1, 4), _random(1, 1, 4), _random(1, 1, 4)
    expected = attention(q, k, v, AttentionRule(1.0), first_position=0, dtype=torch.float32)
    got = v.clone()
    got[0, 0, 2] = float("nan")
    ratio, where = worst_element(got, expected)
    assert ratio == math.inf
    assert where == (0, 0, 2)
