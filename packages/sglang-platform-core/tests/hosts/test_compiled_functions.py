"""The functions of `sgl_kernel` in torch, against the same sums written out."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from sglang_platform.core.sglang.ops.compiled_functions import FUNCTIONS

SERVED = FUNCTIONS["sgl_kernel"]
ACTIVATIONS = {
    "silu_and_mul": F.silu,
    "gelu_and_mul": F.gelu,
    "gelu_tanh_and_mul": lambda x: F.gelu(x, approximate="tanh"),
}


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_gated_activations(name: str) -> None:
    x, out = torch.randn(3, 8, dtype=torch.float64), torch.empty(3, 4, dtype=torch.float64)
    wanted = ACTIVATIONS[name](x[:, :4]) * x[:, 4:]
    assert SERVED[name](x, out) is out
    torch.testing.assert_close(out, wanted, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(SERVED[name](x), wanted, rtol=1e-5, atol=1e-6)


def test_quick_gelu() -> None:
    x = torch.randn(3, 8)
    torch.testing.assert_close(SERVED["gelu_quick"](x), x * torch.sigmoid(1.702 * x))


@pytest.mark.parametrize("name", ["rmsnorm", "gemma_rmsnorm"])
def test_norms(name: str) -> None:
    x, weight = torch.randn(3, 16), torch.randn(16)
    scale = weight + 1 if name.startswith("gemma") else weight
    torch.testing.assert_close(SERVED[name](x, weight, 1e-5), F.rms_norm(x, (16,), scale, 1e-5))
    out = torch.empty_like(x)
    SERVED[name](x, weight, 1e-5, out=out, enable_pdl=False)
    torch.testing.assert_close(out, F.rms_norm(x, (16,), scale, 1e-5))


@pytest.mark.parametrize("name", ["fused_add_rmsnorm", "gemma_fused_add_rmsnorm"])
def test_norms_of_a_sum_write_both_in_place(name: str) -> None:
    x, residual, weight = torch.randn(3, 16), torch.randn(3, 16), torch.randn(16)
    total = x + residual
    SERVED[name](x, residual, weight, 1e-5)
    torch.testing.assert_close(residual, total)
    scale = weight + 1 if name.startswith("gemma") else weight
    torch.testing.assert_close(x, F.rms_norm(total, (16,), scale, 1e-5))


def test_sums_over_experts() -> None:
    x, out = torch.randn(3, 2, 8), torch.empty(3, 8)
    SERVED["moe_sum"](x, out)
    torch.testing.assert_close(out, x.sum(1))
    SERVED["moe_sum_reduce"](x, out, 2.5)
    torch.testing.assert_close(out, x.sum(1) * 2.5)


def test_attention_over_two_parts_is_attention_over_both() -> None:
    scores, values = torch.randn(5, 2, 12), torch.randn(12, 2, 8)
    parts = [(slice(0, 7)), (slice(7, 12))]
    outs = [torch.einsum("thk,khd->thd", scores[..., p].softmax(-1), values[p]) for p in parts]
    sums = [scores[..., p].logsumexp(-1) for p in parts]
    out, lse = SERVED["merge_state_v2"](outs[0], sums[0], outs[1], sums[1])
    torch.testing.assert_close(out, torch.einsum("thk,khd->thd", scores.softmax(-1), values))
    torch.testing.assert_close(lse, scores.logsumexp(-1))
    for nothing in (-math.inf, math.inf):
        empty = torch.full_like(sums[1], nothing)
        out, lse = SERVED["merge_state_v2"](outs[0], sums[0], outs[1], empty)
        torch.testing.assert_close(out, outs[0])
        torch.testing.assert_close(lse, sums[0])


def test_renormalised_probabilities() -> None:
    probs = torch.tensor([[0.1, 0.4, 0.3, 0.2], [0.7, 0.1, 0.1, 0.1]])
    top = SERVED["top_k_renorm_prob"](probs, torch.tensor([2, 1]))
    torch.testing.assert_close(top, torch.tensor([[0, 4 / 7, 3 / 7, 0], [1.0, 0, 0, 0]]))
    torch.testing.assert_close(SERVED["top_k_renorm_prob"](probs, 2**30), probs)
    nucleus = SERVED["top_p_renorm_prob"](probs, torch.tensor([0.6, 0.5]))
    torch.testing.assert_close(nucleus, torch.tensor([[0, 4 / 7, 3 / 7, 0], [1.0, 0, 0, 0]]))
    torch.testing.assert_close(SERVED["top_p_renorm_prob"](probs, 1.0), probs)


@pytest.mark.parametrize("rows", [1, 16, 17])
def test_products_of_int8(rows: int) -> None:
    a = torch.randint(-128, 128, (rows, 32), dtype=torch.int8)
    b = torch.randint(-128, 128, (24, 32), dtype=torch.int8).t()
    by_row, by_column, bias = torch.rand(rows, 1), torch.rand(24, 1), torch.randn(24)
    wanted = (a.long() @ b.long()) * by_row * by_column.view(1, -1) + bias
    got = SERVED["int8_scaled_mm"](a, b, by_row, by_column, torch.float32, bias)
    torch.testing.assert_close(got, wanted.float())


def test_masks_of_grammars() -> None:
    logits, mask = torch.zeros(2, 40), torch.full((2, 2), -1, dtype=torch.int32)
    mask[0, 0], mask[1, 1] = ~(1 << 3), ~(1 << 7)
    both, one = logits.clone(), logits.clone()
    SERVED["apply_token_bitmask_inplace_cuda"](both, mask)
    assert both.isinf().nonzero().tolist() == [[0, 3], [1, 39]]
    SERVED["apply_token_bitmask_inplace_cuda"](one, mask, [1])
    assert one.isinf().nonzero().tolist() == [[1, 39]]
