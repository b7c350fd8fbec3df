"""Level 4: the fused norms and the activation against float64."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from sglang_platform.conformance.check import check, expect
from sglang_platform.conformance.fixtures.attention_cases import compute_dtypes
from sglang_platform.conformance.fixtures.op_calls import (
    STRIDES,
    an_op,
    forward_of,
    judge,
    judge_of_a_slice,
    norm_op,
    only_lent,
    slice_of_wider_rows,
)
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.oracles import ops as oracle
from sglang_platform.conformance.requirement import fused_ops
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_SERVED_WIDTHS = (2880, 3584, 7168, 16384)
"""Of hidden states that are served, up to the widest; two are no multiple of 1,024."""

_SERVED_INNER = (1408, 3420, 18944, 28672)
"""Of the inner rows of served MLPs: narrow experts, one that is no multiple of eight, and the widest."""

_MANY_ROWS = ((64, 256), (256, 96), (1100, 128), (4096, 64))
"""Of batches and of prefills: (rows, width)."""


@dataclass(frozen=True)
class OpCase:
    """`heads`: rows are [tokens, heads, width], as queries and keys are where a model normalises each head."""

    tokens: int
    width: int
    dtype: str
    heads: int = 0

    @property
    def rows(self) -> tuple[int, ...]:
        return (self.tokens, self.heads) if self.heads else (self.tokens,)


def rows(subject: Subject, rng: random.Random) -> Iterator[OpCase]:
    """Widths that divide into vectors, into a half or a quarter of one, and odd ones."""
    sizes = [
        (1, 8),
        (1, 64),
        (3, 128),
        (2, 96),
        (7, 130),
        (6, 131),
        (4, 100),
        (16, 512),
        (5, 1000),
        (33, 2048),
        (0, 64),
    ]
    yield from _with_types(subject, sizes + [(3, width) for width in _widths(subject)])
    for at, (tokens, width) in enumerate([*_MANY_ROWS, (257, 896)]):
        yield OpCase(tokens, width, _types(subject)[at % len(_types(subject))])


def heads_and_rows(subject: Subject, rng: random.Random) -> Iterator[OpCase]:
    """The same, and rows by heads: Qwen3's queries and keys, a prefill of them, a single one, none."""
    yield from rows(subject, rng)
    dtypes = _types(subject)
    for at, (tokens, heads, width) in enumerate(
        ((3, 8, 128), (1, 1, 64), (70, 16, 128), (5, 3, 80), (0, 4, 128))
    ):
        yield OpCase(tokens, width, dtypes[at % len(dtypes)], heads)


def gated_rows(subject: Subject, rng: random.Random) -> Iterator[OpCase]:
    """Rows of MLPs that are served, also of a prefill, and of experts by token and expert."""
    yield from heads_and_rows(subject, rng)
    yield from _with_types(subject, [(2, width) for width in _SERVED_INNER])
    dtypes = _types(subject)
    for power in range(6, 15):  # one more than any block of a kernel
        yield OpCase(1, 2**power + 1, dtypes[power % len(dtypes)])


def _types(subject: Subject) -> list[str]:
    return compute_dtypes(subject)


def _widths(subject: Subject) -> list[int]:
    own = {width for model in subject.models for width in (model.hidden, model.inner) if width}
    return [*_SERVED_WIDTHS, *sorted(own - set(_SERVED_WIDTHS))]


def _with_types(subject: Subject, sizes: list[tuple[int, int]]) -> Iterator[OpCase]:
    dtypes = _types(subject)
    for at, (tokens, width) in enumerate(sizes * len(dtypes)):
        yield OpCase(tokens, width, dtypes[(at + at // len(sizes)) % len(dtypes)])


@check(
    level=Level.KERNELS,
    requires=[fused_ops()],
    cases=heads_and_rows,
    founds="op layernorm.rms_norm",
    fix="x / sqrt(mean(x^2) + epsilon) * weight: the mean over the whole last dimension, in float32, epsilon inside the"
    " root",
)
def rms_norm(subject: Subject, case: OpCase) -> None:
    """RMS normalisation, of rows of any width and number, by tokens or by heads, also where they are a slice of wider
    ones."""
    forward = forward_of(subject, "layernorm.rms_norm")
    x, weight = _random(subject, case, case.width), _random(subject, case, case.width, rows=())
    if case.tokens and case.dtype == "float16":
        x[0] *= 300  # whose squares float16 does not hold
    for epsilon in (1e-6, 0.1):
        op = norm_op(weight, epsilon)
        with only_lent(x=x, weight=op.weight):  # x goes on as the residual
            got = forward(op, x)
        if got is not NotImplemented:
            expected = oracle.rms_norm(x.cpu(), weight.cpu(), epsilon)
            judge(got, expected, "rms_norm", dtype=x.dtype, dense=True)
    sliced = slice_of_wider_rows(x)
    if case.heads:  # queries beside keys, as one projection gives them
        wide = torch.cat((x.flatten(1), torch.ones_like(x.flatten(1))), dim=-1)
        sliced = wide[:, : case.heads * case.width].unflatten(1, (case.heads, case.width))
    got = forward(op, sliced)
    if got is not NotImplemented:
        expected = oracle.rms_norm(x.cpu(), weight.cpu(), 0.1)
        judge(got, expected, "rms_norm of a slice", fix=STRIDES)


@check(
    level=Level.KERNELS,
    requires=[fused_ops()],
    cases=rows,
    founds="op layernorm.rms_norm",
    fix="answer (norm of x + residual, x + residual): the residual goes on unnormalised",
)
def fused_add_rms_norm(subject: Subject, case: OpCase) -> None:
    """The residual is added before the normalisation, and handed on as the sum; both may be slices of wider rows."""
    forward = forward_of(subject, "layernorm.rms_norm")
    x, residual = _random(subject, case, case.width), _random(subject, case, case.width) * 3
    weight = _random(subject, case, case.width, rows=())
    expected = oracle.fused_add_rms_norm(x.cpu(), residual.cpu(), weight.cpu(), 1e-5)
    op = norm_op(weight, 1e-5)
    with only_lent(weight=op.weight):
        got = forward(op, x.clone(), residual.clone())
    if got is NotImplemented:
        return
    _expect_pair(got)
    judge(got[0], expected[0], "the normalised sum", dtype=x.dtype)
    judge(got[1], expected[1], "the new residual", dtype=x.dtype)
    for which in ("x", "the residual"):
        given = [
            slice_of_wider_rows(one) if which == name else one.clone()
            for name, one in (("x", x), ("the residual", residual))
        ]
        got = forward(op, *given)
        if got is not NotImplemented:
            for one, wanted, what in zip(got, expected, ("normalised sum", "new residual"), strict=True):
                judge(one, wanted, f"the {what}, where {which} is a slice of wider rows,", fix=STRIDES)


@dataclass(frozen=True)
class Variant:
    """What a norm has that the plain one has not. `columns`: `variance_size_override`. `result`:
    `override_orig_dtype`. `weight`: the weight's type. `addition`: `post_residual_addition` is given."""

    name: str
    columns: int | None = None
    result: str | None = None
    weight: str | None = None
    fp32_residual: bool = False
    cast_x_before_out_mul: bool = False
    residual: bool = False
    addition: bool = False


def variants(subject: Subject, rng: random.Random) -> Iterator[Variant]:
    for residual in (False, True):
        yield Variant("variance_size_override", columns=96, residual=residual)
        yield Variant("override_orig_dtype", result="float32", residual=residual)
        yield Variant("cast_x_before_out_mul", cast_x_before_out_mul=True, residual=residual)
        yield Variant("a float32 weight", weight="float32", residual=residual)
    yield Variant("fp32_residual", fp32_residual=True, residual=True)
    yield Variant("post_residual_addition", residual=True, addition=True)


@check(
    level=Level.KERNELS,
    requires=[fused_ops()],
    cases=variants,
    fix="answer NotImplemented for a variant that your kernel does not compute: the host's own forward then serves it",
)
def rms_norm_variants(subject: Subject, case: Variant) -> None:
    """Each variant of the norm that models ask for (columns of the mean, type of the result, of the residual and of the
    weight, a third summand) is computed, or left to the host: never computed as the plain norm."""
    forward = forward_of(subject, "layernorm.rms_norm")
    shape = OpCase(5, 256, compute_dtypes(subject)[-1])
    x, weight = _random(subject, shape, 256), _random(subject, shape, 256, rows=()) + 2
    x[:, 96:] *= 4
    result = getattr(torch, case.result) if case.result else x.dtype
    op = norm_op(
        weight.to(getattr(torch, case.weight)) if case.weight else weight,
        1e-5,
        variance_size_override=case.columns,
        override_orig_dtype=result if case.result else None,
        fp32_residual=case.fp32_residual,
        cast_x_before_out_mul=case.cast_x_before_out_mul,
    )
    fix = f"look at {case.name}, or answer NotImplemented"
    if not case.residual:
        got = forward(op, x.clone())
        if got is not NotImplemented:
            expected = oracle.rms_norm(x.cpu(), weight.cpu(), 1e-5, columns=case.columns, dtype=result)
            judge(got, expected, f"rms_norm with {case.name}", fix, dtype=result)
        return
    residual = _random(subject, shape, 256, stream=1) * 3
    kept = torch.float32 if case.fp32_residual else result
    if case.fp32_residual:
        residual = residual.float() * 1.001
    addition = _random(subject, shape, 256, stream=2) * 5 if case.addition else None
    got = forward(op, x.clone(), residual.clone(), *([addition.clone()] if addition is not None else []))
    if got is NotImplemented:
        return
    _expect_pair(got)
    theirs = None if addition is None else addition.cpu()
    normalised, total = oracle.fused_add_rms_norm(
        x.cpu(), residual.cpu(), weight.cpu(), 1e-5, addition=theirs, kept=kept
    )
    if case.columns:
        normalised = oracle.rms_norm(total.value, weight.cpu(), 1e-5, columns=case.columns, dtype=x.dtype)
        normalised.bound.mul_(3)  # the sum may be rounded first
    judge(got[0], normalised, f"the normalised sum with {case.name}", fix, dtype=result)
    judge(got[1], total, f"the new residual with {case.name}", fix, dtype=kept)


def _expect_pair(got: Any) -> None:
    expect(
        isinstance(got, tuple) and len(got) == 2,
        f"with a residual the answer is {type(got).__name__}, not a pair",
    )


@check(
    level=Level.KERNELS,
    requires=[fused_ops()],
    cases=gated_rows,
    founds="op activation.silu_and_mul",
    fix="silu(first half) * second half: x is [.., 2 * width], the gate comes first",
)
def silu_and_mul(subject: Subject, case: OpCase) -> None:
    """The gated activation, of rows of any width and number, also for large gates, in a tensor of its own; of a
    slice of wider rows it is right, or refused in words."""
    forward = forward_of(subject, "activation.silu_and_mul")
    x = _random(subject, case, 2 * case.width) * 4
    if case.tokens:
        first = x.view(-1, 2 * case.width)
        first[0, 0], first[-1, case.width - 1] = -80.0, 100.0
    with only_lent(x=x):
        got = forward(an_op(), x)
    if got is not NotImplemented:
        wanted = oracle.silu_and_mul(x.cpu())
        judge(got, wanted, "silu_and_mul", dtype=x.dtype, dense=True)
        judge_of_a_slice(forward, an_op(), x, wanted, "silu_and_mul")


def _random(
    subject: Subject, case: OpCase, width: int, rows: tuple[int, ...] | None = None, stream: int = 0
) -> torch.Tensor:
    # Another stream for every width and form of rows, the same for every run.
    shape = (*(case.rows if rows is None else rows), width)
    generator = torch.Generator().manual_seed(subject.seed + 31 * width + 7 * len(shape) + stream)
    return torch.randn(shape, generator=generator).to(getattr(torch, case.dtype)).to(subject.device)
