"""Level 4: the norms that only some models have, against float64."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from sglang_platform.conformance.check import check, expect
from sglang_platform.conformance.fixtures.attention_cases import compute_dtypes
from sglang_platform.conformance.fixtures.op_calls import an_op, forward_of, judge, only_lent
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.oracles import more_ops as oracle
from sglang_platform.conformance.oracles.ops import fused_add_rms_norm, rms_norm
from sglang_platform.conformance.requirement import fused_ops
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_SIZES = ((1, 8), (3, 128), (7, 130), (33, 896), (0, 64), (5, 3584), (300, 64), (6, 131), (6, 131))
_EPSILONS = (1e-6, 0.1)


@dataclass(frozen=True)
class Norm:
    """`op`: its stable name. `rows`: of x, [tokens] or [tokens, heads]. `how`: what varies, by the op's own field.
    `sliced`: x is a part of wider rows, as heads are of a fused projection."""

    op: str
    rows: tuple[int, ...]
    width: int
    dtype: str
    residual: bool = False
    how: str = ""
    sliced: bool = False
    weight: str = ""
    """Its type, where it is not that of the rows."""


def _norms(subject: Subject, op: str, *, residual: bool = False, how: str = "") -> Iterator[Norm]:
    dtypes = compute_dtypes(subject)
    for at, (tokens, width) in enumerate(_SIZES):
        yield Norm(op, (tokens,), width, dtypes[at % len(dtypes)], residual, how)
    if not residual:
        for rows in ((4, 3), (5,)):
            yield Norm(op, rows, 64, dtypes[0], how=how, sliced=rows == (5,))
        yield Norm(op, (4, 3), 64, dtypes[-1], how=how, sliced=True)


def gemmas(subject: Subject, rng: random.Random) -> Iterator[Norm]:
    for op in ("layernorm.gemma_rms_norm", "layernorm.gemma3_rms_norm"):
        for residual in (False, True):
            yield from _norms(subject, op, residual=residual)
            yield Norm(op, (5,), 256, compute_dtypes(subject)[-1], residual, weight="float32")


@check(
    level=Level.KERNELS,
    requires=[fused_ops()],
    cases=gemmas,
    founds="op {op}",
    fix="times 1 + weight, added in float32; with a residual answer (norm of x + residual, x + residual)",
)
def gemma_norms(subject: Subject, case: Norm) -> None:
    """Gemma's norms multiply by one plus the weight, and hand the sum with the residual on; rows may be a slice of
    wider ones. A weight of float32 is read as it is, or left to the host."""
    forward, drawn = forward_of(subject, case.op), _Drawn(subject, case)
    x, weight = drawn.rows(case), drawn.of(case.width)
    if case.weight:
        weight = weight.to(getattr(torch, case.weight))
    for epsilon in _EPSILONS:
        op = an_op(weight=weight, variance_epsilon=epsilon, eps=epsilon)
        one_more = weight.cpu().double() + 1
        if not case.residual:
            with only_lent(x=x, weight=weight):
                got = forward(op, x)
            if got is not NotImplemented:
                wanted = rms_norm(x.cpu(), one_more, epsilon)
                judge(got, wanted, f"the norm times 1 + weight, of {case.op},", dtype=x.dtype, dense=True)
            continue
        residual = drawn.of(*case.rows, case.width) * 3
        with only_lent(weight=weight):
            got = forward(op, x.clone(), residual.clone())
        if got is NotImplemented:
            continue
        expect(
            isinstance(got, tuple) and len(got) == 2, f"with a residual the answer is {type(got).__name__}"
        )
        normalised, total = fused_add_rms_norm(x.cpu(), residual.cpu(), one_more, epsilon)
        judge(got[0], normalised, f"the normalised sum of {case.op}", dtype=x.dtype)
        judge(got[1], total, f"the new residual of {case.op}", dtype=x.dtype)


def scaled(subject: Subject, rng: random.Random) -> Iterator[Norm]:
    yield from _norms(subject, "layernorm.rms_norm_without_scale")
    for how in ("scale", "shifted", "no scale"):
        yield from _norms(subject, "layernorm.gemma4_rms_norm", how=how)


@check(
    level=Level.KERNELS,
    requires=[fused_ops()],
    cases=scaled,
    founds="op {op}",
    fix="times weight + scale_shift, and times nothing without a scale",
)
def norms_of_other_scales(subject: Subject, case: Norm) -> None:
    """Norms whose weight is shifted by a number of the op, or that have none, whatever the weight holds then; rows
    may be a slice of wider ones."""
    forward, drawn = forward_of(subject, case.op), _Drawn(subject, case)
    x, weight = drawn.rows(case), drawn.of(case.width)
    shift = 1.0 if case.how == "shifted" else 0.0
    scale = torch.ones(case.width, dtype=torch.float64)
    if case.how in ("scale", "shifted"):
        scale = weight.cpu().double() + shift
    for epsilon in _EPSILONS:
        op = an_op(eps=epsilon, hidden_size=case.width)
        if case.how:
            op.weight, op.scale_shift, op.with_scale = weight, shift, case.how != "no scale"
        with only_lent(x=x, weight=weight):
            got = forward(op, x)
        if got is not NotImplemented:
            what = f"{case.op}, {case.how or 'which has no weight'},"
            judge(got, rms_norm(x.cpu(), scale, epsilon), what, dtype=x.dtype, dense=True)


def layer_norms(subject: Subject, rng: random.Random) -> Iterator[Norm]:
    for how in ("weight and bias", "no bias", "nothing"):
        yield from _norms(subject, "layernorm.layer_norm", how=how)


@check(
    level=Level.KERNELS,
    requires=[fused_ops()],
    cases=layer_norms,
    founds="op {op}",
    fix="(x - mean) / sqrt(variance + epsilon) * weight + bias, the variance of the differences in float32; no weight"
    " without elementwise_affine, no bias without use_bias",
)
def layer_norm(subject: Subject, case: Norm) -> None:
    """Layer normalisation takes the mean off, also where it is large beside the spread, and adds the bias that the op
    has; rows may be a slice of wider ones."""
    forward, drawn = forward_of(subject, case.op), _Drawn(subject, case)
    x = drawn.rows(case).add_(100)
    weight, bias = drawn.of(case.width).float(), drawn.of(case.width).float() * 3
    affine, biased = case.how != "nothing", case.how == "weight and bias"
    for epsilon in _EPSILONS:
        op = an_op(
            hidden_size=case.width,
            variance_epsilon=epsilon,
            elementwise_affine=affine,
            use_bias=biased,
            dtype=torch.float32,
            weight=weight,
            bias=bias,
        )
        with only_lent(x=x, weight=weight, bias=bias):
            got = forward(op, x)
        if got is not NotImplemented:
            wanted = oracle.layer_norm(
                x.cpu(), weight.cpu() if affine else None, bias.cpu() if biased else None, epsilon
            )
            judge(got, wanted, f"layer_norm with {case.how}", dtype=x.dtype, dense=True)


@dataclass(frozen=True)
class Gated:
    """`groups`: of columns that share a mean; `ranks`: on which the groups lie; `norm`: `use_rms_norm`; `sliced`: x and
    gate are columns of wider rows."""

    tokens: int
    width: int
    groups: int
    dtype: str
    ranks: int = 1
    norm: bool = True
    sliced: bool = False


def gated(subject: Subject, rng: random.Random) -> Iterator[Gated]:
    dtypes = compute_dtypes(subject)
    sizes = ((1, 64, 1), (3, 128, 4), (7, 96, 3), (0, 64, 2), (33, 1024, 8), (5, 512, 1))
    for at, (tokens, width, groups) in enumerate(sizes):
        yield Gated(tokens, width, groups, dtypes[at % len(dtypes)])
    for at, (tokens, width, groups) in enumerate(((1, 64, 1), (5, 128, 4), (9, 96, 3))):
        yield Gated(tokens, width, groups, dtypes[at % len(dtypes)], sliced=True)
    yield Gated(3, 64, 2, dtypes[0], norm=False)
    yield Gated(3, 64, 3, dtypes[0], ranks=2)


@check(
    level=Level.KERNELS,
    requires=[fused_ops()],
    cases=gated,
    fix="x * silu(gate) first, then the mean of each group of group_size columns; NotImplemented where ranks share a"
    " group",
)
def gated_group_norm(subject: Subject, case: Gated) -> None:
    """The norm of a Mamba-2 mixer multiplies by silu of the gate before it normalises, group by group; what other ranks
    hold a part of is not computed from this one's alone."""
    forward = forward_of(subject, "layernorm.mixer2_rms_norm_gated")
    drawn = _Drawn(subject, case)
    x, gate = drawn.of(case.tokens, case.width), drawn.of(case.tokens, case.width) * 2
    weight = drawn.of(case.width) + 1
    x[:, : case.width // 2] *= 6
    if case.sliced:  # the gate is a part of the mixer's first product
        x, gate = torch.cat((gate, x, gate), dim=1).split(case.width, dim=1)[1:]
    op = an_op(
        weight=weight if case.norm else None,
        variance_epsilon=1e-5,
        use_rms_norm=case.norm,
        n_groups=case.groups,
        group_size=case.width * case.ranks // case.groups,
        tp_size=case.ranks,
        tp_rank=0,
        full_hidden_size=case.width * case.ranks,
        per_rank_hidden_size=case.width,
    )
    with only_lent(x=x, gate=gate):
        got = forward(op, x, gate)
    if got is NotImplemented:
        return
    expect(
        case.ranks == 1,
        f"{case.ranks} ranks share {case.groups} groups, and the op answers from the columns of one rank alone",
    )
    wanted = oracle.gated_group_norm(
        x.cpu(), gate.cpu(), weight.cpu() if case.norm else None, case.width // case.groups, 1e-5
    )
    judge(got, wanted, f"the gated norm of {case.groups} groups", dtype=x.dtype)


class _Drawn:
    """Random tensors of a case, the same in every run."""

    def __init__(self, subject: Subject, case: Any) -> None:
        self._device, self._rng = subject.device, subject.torch_rng()
        self._dtype = getattr(torch, case.dtype)

    def rows(self, case: Norm) -> torch.Tensor:
        """The op's x."""
        if not case.sliced:
            return self.of(*case.rows, case.width)
        inner = (*case.rows[1:], case.width)
        return self.of(case.rows[0], prod(inner) + 64)[:, 32:-32].unflatten(1, inner)

    def of(self, *shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=self._rng).to(self._dtype).to(self._device)
