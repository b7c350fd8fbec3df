"""The fused ops as an engine calls them, on op objects like SGLang's, against core's reference."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sglang_platform.core.ops import reference
from sglang_platform.core.ops.fused_op import FusedOp, RMSNorm
from sglang_platform.core.portable.triton import ops


def norm(**changes: Any) -> Any:
    op = RMSNorm()
    vars(op).update({"weight": torch.rand(64) + 0.5, "variance_epsilon": 1e-6, **changes})
    return op


def test_rms_norm_with_and_without_a_residual() -> None:
    op, x, residual = norm(), torch.randn(5, 64), torch.randn(5, 64)
    torch.testing.assert_close(ops.rms_norm(op, x), reference.rms_norm(x, op.weight, 1e-6))
    want_x, want_residual = x.clone(), residual.clone()
    reference.fused_add_rms_norm(want_x, want_residual, op.weight, 1e-6)
    got_x, got_residual = ops.rms_norm(op, x, residual)
    assert got_x is x
    assert got_residual is residual
    torch.testing.assert_close(x, want_x)
    torch.testing.assert_close(residual, want_residual)


def test_round_first() -> None:
    op, x = (
        norm(weight=(torch.rand(64) + 0.5).bfloat16(), cast_x_before_out_mul=True),
        torch.randn(9, 64).bfloat16(),
    )
    want = reference.rms_norm(x, op.weight, 1e-6, round_first=True)
    torch.testing.assert_close(ops.rms_norm(op, x).float(), want.float(), rtol=0.02, atol=0)


@pytest.mark.parametrize(
    ("changes", "arguments"),
    [
        ({"variance_size_override": 32}, ()),
        ({"fp32_residual": True}, ()),
        ({"override_orig_dtype": torch.float16}, ()),
        ({}, (torch.zeros(3, 64), torch.zeros(3, 64))),
        ({}, (torch.zeros(64, 3).t(),)),
    ],
)
def test_variants_that_the_kernel_does_not_know_stay_with_the_host(changes: Any, arguments: Any) -> None:
    assert ops.rms_norm(norm(**changes), torch.randn(3, 64), *arguments) is NotImplemented


def test_what_is_not_served_runs_as_it_would_have_without() -> None:
    ops.register("another_test")
    op = norm(variance_size_override=32, forward_native=lambda *_, **__: "native")
    assert op.resolve("another_test")(torch.randn(3, 64), None) == "native"
    vars(op)["variance_size_override"] = None
    assert isinstance(op.resolve("another_test")(torch.randn(3, 64), None), torch.Tensor)


def test_silu_and_rotary() -> None:
    x = torch.randn(4, 3, 32)
    torch.testing.assert_close(ops.silu_and_mul(SimpleNamespace(), x), reference.silu_and_mul(x))
    angles = torch.rand(20, 8)
    op = SimpleNamespace(
        head_size=16, cos_sin_cache=torch.cat((angles.cos(), angles.sin()), -1), is_neox_style=False
    )
    query, key, positions = torch.randn(4, 48), torch.randn(4, 16), torch.tensor([0, 19, 3, 7])
    want = query.clone(), key.clone()
    reference.rotary_embedding(positions, *want, 16, op.cos_sin_cache, neox=False)
    got = ops.rotary_embedding(op, positions - 0, query, key, torch.zeros(4, dtype=torch.int64))
    for mine, other in zip(got, want, strict=True):
        torch.testing.assert_close(mine, other)


def test_registered_under_a_key() -> None:
    ops.register("a_test")
    assert {entry.op_cls for entry in FusedOp.registered("a_test")} == set(ops.FORWARDS)
    op = type("Mine", (RMSNorm,), {})()
    assert op.resolve("another") == op.forward_native
