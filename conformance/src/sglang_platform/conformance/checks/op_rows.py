"""Level 4: ops over more rows than one launch of a kernel may have blocks for."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from sglang_platform.conformance.check import check, expect
from sglang_platform.conformance.fixtures.attention_cases import compute_dtypes
from sglang_platform.conformance.fixtures.op_calls import an_op, choice_config, forward_of, judge, norm_op
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.oracles import more_ops
from sglang_platform.conformance.oracles import ops as oracle
from sglang_platform.conformance.requirement import fused_ops
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_ROWS = (2100, 32)
"""Tokens of a prefill and heads of each: 67,200 rows, more than the 65,535 that a grid's second axis has."""

_WIDTH = 24


@dataclass(frozen=True)
class ManyRows:
    """`op`: its stable name. `rows`: of x."""

    op: str
    rows: tuple[int, ...]
    dtype: str
    residual: bool = False


def many_rows(subject: Subject, rng: random.Random) -> Iterator[ManyRows]:
    """By tokens and heads where models norm each head, else by tokens."""
    dtype, flat = compute_dtypes(subject)[0], (_ROWS[0] * _ROWS[1],)
    yield ManyRows("layernorm.rms_norm", _ROWS, dtype)
    for op in (
        "layernorm.rms_norm",
        "layernorm.gemma_rms_norm",
        "layernorm.gemma3_rms_norm",
        "layernorm.layer_norm",
        "layernorm.rms_norm_without_scale",
        "activation.silu_and_mul",
        "activation.gelu_and_mul",
        "moe.topk",
    ):
        yield ManyRows(op, flat, dtype)
    yield ManyRows("layernorm.rms_norm", flat, dtype, residual=True)


@check(
    level=Level.KERNELS,
    requires=[fused_ops()],
    cases=many_rows,
    seconds=120,
    fix="launch over the first axis of the grid, which takes 2**31 blocks: the others take 65,535; rows are tokens"
    " times heads",
)
def ops_over_many_rows(subject: Subject, case: ManyRows) -> None:
    """Norms, gated activations and the choice of experts over 67,200 rows: of a long prefill, or of 2,100 tokens with
    32 heads each. Every row is looked at."""
    forward = forward_of(subject, case.op)
    generator, dtype = subject.torch_rng(), getattr(torch, case.dtype)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(dtype).to(subject.device)

    what = f"{case.op} of {list(case.rows)} rows"
    if case.op.startswith("activation."):
        x = drawn(*case.rows, 2 * _WIDTH)
        got = forward(an_op(approximate="tanh"), x)
        if got is not NotImplemented:
            silu = case.op == "activation.silu_and_mul"
            wanted = (
                oracle.silu_and_mul(x.cpu())
                if silu
                else more_ops.activation("gelu_tanh", x.cpu(), gated=True)
            )
            judge(got, wanted, what, dtype=dtype)
        return
    if case.op == "moe.topk":
        order = torch.rand(*case.rows, 8, generator=generator).argsort(dim=1)
        _choose(forward, torch.linspace(-2.0, 2.0, 8)[order].to(subject.device), what)  # no two are near
        return
    x, weight = drawn(*case.rows, _WIDTH), drawn(_WIDTH)
    if case.residual:
        residual = drawn(*case.rows, _WIDTH)
        got = forward(norm_op(weight, 1e-5), x.clone(), residual.clone())
        if got is not NotImplemented:
            wanted_pair = oracle.fused_add_rms_norm(x.cpu(), residual.cpu(), weight.cpu(), 1e-5)
            for one, must, part in zip(got, wanted_pair, ("the normalised sum", "the residual"), strict=True):
                judge(one, must, f"{part} of {what}")
        return
    got = forward(_norm(weight), x)
    if got is not NotImplemented:
        judge(got, _normed(case.op, x.cpu(), weight.cpu()), what, dtype=dtype)


def _norm(weight: torch.Tensor) -> Any:
    """An op with what each of the norms reads."""
    op = norm_op(weight, 1e-5, eps=1e-5, elementwise_affine=True, use_bias=False, bias=None)
    op.dtype = weight.dtype
    return op


def _normed(op: str, x: torch.Tensor, weight: torch.Tensor) -> Any:
    if op == "layernorm.layer_norm":
        return more_ops.layer_norm(x, weight, None, 1e-5)
    if op == "layernorm.rms_norm_without_scale":
        return oracle.rms_norm(x, torch.ones(len(weight), dtype=torch.float64), 1e-5)
    return oracle.rms_norm(x, weight.double() + 1 if "gemma" in op else weight, 1e-5)


def _choose(forward: Any, logits: torch.Tensor, what: str) -> None:
    config = choice_config(top_k=2, renormalize=True)
    hidden = logits.new_zeros(len(logits), 4)
    got = forward(an_op(topk_config=config), hidden, logits, config)
    if got is NotImplemented:
        return
    weights, ids = (one.cpu() for one in got)
    wanted = more_ops.choice_of_experts(logits.cpu(), 2, renormalize=True)
    given = torch.zeros_like(wanted).scatter(1, ids.long(), weights.double())
    wrong = torch.nonzero(~((given - wanted).abs() <= 1e-5).all(dim=1)).flatten().tolist()
    expect(not wrong, f"{what}: {len(wrong)} tokens get other experts or weights, the first is {wrong[:1]}")
