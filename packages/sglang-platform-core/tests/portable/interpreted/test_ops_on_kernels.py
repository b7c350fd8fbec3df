"""The fused ops as an engine calls them, on op objects like SGLang's, against torch."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.nn.functional import rms_norm, silu

from sglang_platform.core.ops.fused_op import FusedOp, RMSNorm, or_else
from sglang_platform.core.portable.triton import ops


def norm(**changes: Any) -> Any:
    defaults = {name: value for name, value in vars(RMSNorm).items() if name in RMSNorm.__annotations__}
    return SimpleNamespace(
        **{**defaults, "weight": torch.rand(64) + 0.5, "variance_epsilon": 1e-6, **changes}
    )


def test_rms_norm_with_and_without_a_residual() -> None:
    op, x, residual = norm(), torch.randn(5, 64), torch.randn(5, 64)
    torch.testing.assert_close(ops.rms_norm(op, x), rms_norm(x, (64,), op.weight, 1e-6))
    want_residual = x + residual
    want_x = rms_norm(want_residual, (64,), op.weight, 1e-6)
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
    want = rms_norm(x.float(), (64,), None, 1e-6).bfloat16() * op.weight
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
    forward = {entry.op_cls: entry.forward for entry in FusedOp.registered("another_test")}[RMSNorm]
    op = norm(variance_size_override=32)
    served = or_else(partial(forward, op), lambda *_: "native")
    assert served(torch.randn(3, 64), None) == "native"
    op.variance_size_override = None
    assert isinstance(served(torch.randn(3, 64), None), torch.Tensor)


def test_silu_and_rotary() -> None:
    x = torch.randn(4, 3, 32)
    torch.testing.assert_close(ops.silu_and_mul(SimpleNamespace(), x), silu(x[..., :16]) * x[..., 16:])
    angles = torch.rand(20, 8)
    op = SimpleNamespace(
        head_size=16, cos_sin_cache=torch.cat((angles.cos(), angles.sin()), -1), is_neox_style=False
    )
    query, key, positions = torch.randn(4, 48), torch.randn(4, 16), torch.tensor([0, 19, 3, 7])
    turns = torch.polar(torch.ones(4, 1, 8), angles[positions].unsqueeze(1))
    want = [
        torch.view_as_real(torch.view_as_complex(x.view(4, -1, 8, 2)) * turns).flatten(1)
        for x in (query.clone(), key.clone())
    ]
    got = ops.rotary_embedding(op, positions - 0, query, key, torch.zeros(4, dtype=torch.int64))
    for mine, other in zip(got, want, strict=True):
        torch.testing.assert_close(mine, other)


def test_registered_under_a_key() -> None:
    ops.register("a_test")
    assert {entry.op_cls for entry in FusedOp.registered("a_test")} == set(ops.FORWARDS)


def asked(**changes: Any) -> dict[str, Any]:
    cache = torch.zeros(4, 2, 1, 16)
    entries = {"v": torch.randn(3, 1, 16), "slot_mapping": torch.tensor([7, 0, 2]), "swa_slot_mapping": None}
    return {
        **entries,
        "key_cache": cache,
        "value_cache": cache.clone(),
        "k_scale": None,
        "v_scale": None,
        **changes,
    }


def turned(given: Any, **handed_in: Any) -> Any:
    op = SimpleNamespace(head_size=16, cos_sin_cache=torch.rand(20, 16), is_neox_style=True)
    arguments = torch.arange(3), torch.randn(3, 32), torch.randn(3, 16)
    return ops.rotary_embedding(op, *arguments, fused_set_kv_buffer_arg=given, **handed_in)


@pytest.mark.parametrize(
    "given",
    [
        "an argument",
        asked(key_cache=torch.zeros(4, 1, 2, 2, 8)),
        asked(key_cache=torch.zeros(4, 1, 2, 16).transpose(1, 2)[:, :, :, ::2]),
        asked(value_cache=torch.zeros(4, 3, 2, 16).permute(0, 2, 1, 3)),
        asked(key_cache=torch.zeros(4, 2, 1, 16).byte()),
        asked(k_scale=torch.ones(1)),
        asked(slot_mapping=torch.tensor([7, 0])),
        asked(v=torch.randn(3, 1, 16).half()),
        asked(v=torch.randn(3, 1, 32)[..., ::2]),
        asked(a_word_of_a_later_host=1),
        {"v": torch.randn(3, 1, 16)},
    ],
)
def test_stores_that_the_kernels_do_not_know_stay_with_the_host(given: Any) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError(f"launched for {given}")

    assert turned(given, rotate_and_store=never) is NotImplemented


def test_a_store_is_handed_on_in_rows_of_slots() -> None:
    given, seen = asked(), []
    turned(given, rotate_and_store=lambda *_, **words: seen.append(words))
    assert seen[0]["k_out"].shape == seen[0]["v_out"].shape == (8, 16)
    assert seen[0]["k_out"].data_ptr() == given["key_cache"].data_ptr()
    by_attributes = SimpleNamespace(
        value=torch.randn(3, 16),
        k_buffer=torch.zeros(8, 16),
        v_buffer=torch.zeros(8, 16),
        cache_loc=torch.arange(3),
    )
    turned(by_attributes, rotate_and_store=lambda *_, **words: seen.append(words))
    assert seen[1]["v_out"] is by_attributes.v_buffer
    assert turned(given) is NotImplemented, "no package has handed a kernel in"
