"""Level 4: the activations that only some models have, against float64."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from sglang_platform.conformance.check import check
from sglang_platform.conformance.fixtures.attention_cases import compute_dtypes
from sglang_platform.conformance.fixtures.op_calls import (
    an_op,
    forward_of,
    judge,
    judge_of_a_slice,
    only_lent,
)
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.oracles import more_ops as oracle
from sglang_platform.conformance.requirement import fused_ops
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_SIZES = (((1,), 8), ((3,), 130), ((17,), 1408), ((0,), 64), ((4, 3), 96), ((2,), 18944), ((300,), 64))

_FUNCTIONS = {
    "activation.new_gelu": "gelu_tanh",
    "activation.quick_gelu": "quick_gelu",
    "activation.relu2": "relu2",
}


@dataclass(frozen=True)
class ActivationRows:
    """`function`: what the op computes, in the oracle's words."""

    op: str
    function: str
    rows: tuple[int, ...]
    width: int
    dtype: str


def gated(subject: Subject, rng: random.Random) -> Iterator[ActivationRows]:
    for function in ("gelu_tanh", "gelu"):
        yield from _rows(subject, "activation.gelu_and_mul", function)


def plain(subject: Subject, rng: random.Random) -> Iterator[ActivationRows]:
    for op, function in _FUNCTIONS.items():
        yield from _rows(subject, op, function)


def _rows(subject: Subject, op: str, function: str) -> Iterator[ActivationRows]:
    dtypes = compute_dtypes(subject)
    for at, (rows, width) in enumerate(_SIZES):
        yield ActivationRows(op, function, rows, width, dtypes[at % len(dtypes)])


@check(
    level=Level.KERNELS,
    requires=[fused_ops()],
    cases=gated,
    founds="op {op}",
    fix="gelu(first half) * second half; by erf where op.approximate is 'none', in its tanh form where it is 'tanh'",
)
def gelu_and_mul(subject: Subject, case: ActivationRows) -> None:
    """The gelu gate in the form that the op names: the two differ by up to 5e-4; of a slice of wider rows it
    is right, or refused in words."""
    op = an_op(approximate="tanh" if case.function == "gelu_tanh" else "none")
    forward, x = forward_of(subject, case.op), _random(subject, case, 2 * case.width)
    with only_lent(x=x):
        got = forward(op, x)
    if got is not NotImplemented:
        wanted = oracle.activation(case.function, x.cpu(), gated=True)
        what = f"gelu_and_mul, approximate={op.approximate!r},"
        judge(got, wanted, what, dtype=x.dtype, dense=True)
        judge_of_a_slice(forward, op, x, wanted, what)


@check(
    level=Level.KERNELS,
    requires=[fused_ops()],
    cases=plain,
    founds="op {op}",
    fix="NewGELU: gelu in its tanh form; QuickGELU: x sigmoid(1.702 x); ReLU2: max(0, x) squared",
)
def activations(subject: Subject, case: ActivationRows) -> None:
    """Activations without a gate, of rows of any number and width, also far from zero, in a tensor of its own."""
    x = _random(subject, case, case.width)
    with only_lent(x=x):
        got = forward_of(subject, case.op)(an_op(), x)
    if got is not NotImplemented:
        judge(got, oracle.activation(case.function, x.cpu()), case.function, dtype=x.dtype, dense=True)


def _random(subject: Subject, case: ActivationRows, width: int) -> torch.Tensor:
    x = torch.randn(*case.rows, width, generator=subject.torch_rng()) * 3
    if x.numel():
        x.view(-1, width)[0, :4] = torch.tensor([-60.0, 60.0, 0.0, -1.5])
    return x.to(getattr(torch, case.dtype)).to(subject.device)
