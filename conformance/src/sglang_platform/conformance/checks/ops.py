"""Level 4: fused ops. Each check is a property that runs over the rows of `fixtures.op_specs`: over those of the ops
that the platform registers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from sglang_platform.conformance.check import CheckFailed, Row, check, expect
from sglang_platform.conformance.fixtures.attention_cases import compute_dtypes
from sglang_platform.conformance.fixtures.kept import MOST_CALLS, expect_nothing_kept
from sglang_platform.conformance.fixtures.op_calls import forward_of
from sglang_platform.conformance.fixtures.op_spec import Drawn, OpCall, OpCase, OpSpec, Output, parameters
from sglang_platform.conformance.fixtures.op_specs import SPECS
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.oracles.attention import Expected
from sglang_platform.conformance.requirement import fused_ops
from sglang_platform.conformance.subject import Subject

_CARRIES = ("x", "residual", "gate", "query", "key", "router_logits")
"""Inputs that hold a row for each token."""

_SAME = " of the very tensors of the call before,"
_OVER = " of the tensors of the call before, written over,"
_SEQUENCE = (
    (0, 3, ""),
    (0, 3, ""),
    (1, 17, ""),
    (1, 17, ""),
    (0, 3, ""),
    (1, 3, _SAME),
    (0, 3, _SAME),
    (0, 3, _OVER),
    (1, 3, _SAME),
    (0, 1, ""),
    (1, 64, ""),
    (0, 2, ""),
    (1, 3, ""),
    (2, 3, ""),
    (2, 1, ""),
)
"""Calls: of which layer, of how many tokens, and what the tensors are that the op is lent. All layers of a step may be
handed the same ones, as the positions by models of several rotary embeddings; steps of a draft model write them over
(`positions.add_(1)`). The last layer is one of a model that is loaded later, where the first lay in memory."""


def specs(subject: Subject) -> list[OpSpec]:
    """Of the ops that the platform registers."""
    registered = {entry.op for entry in subject.fused_ops()}
    return [spec for name, spec in SPECS.items() if name in registered]


_check = partial(check, level=Level.KERNELS, requires=[fused_ops()], seconds=600)


def ops(subject: Subject, rng: random.Random) -> Iterator[Row]:
    yield from (Row(spec.name) for spec in specs(subject))


def values(subject: Subject, rng: random.Random) -> Iterator[OpCase]:
    """Of each op: rows of any width and number, none too, in each type, by tokens and by heads, in the forms that the
    op has, at the sizes of served models; and 67,200 rows: of a long prefill, or of 2,100 tokens with 32 heads each.
    Each option alone, and those that a model sets together."""
    for spec in specs(subject):
        yield from spec.cases(subject)
        yield from spec.options(subject)
        yield from (replace(case, many=True) for case in spec.many(compute_dtypes(subject)[0]))


@_check(
    cases=values,
    founds="op {op}",
    fix="compute what SGLang's own forward of the op computes",
)
def op_values(subject: Subject, case: OpCase) -> None:
    """An op answers what it must, against float64, in the type and shape of its input and without gaps, and changes
    nothing that it was only lent; where an input is a slice of wider rows as well. What a model asks beyond the plain
    op is computed as asked, or left to the host: never computed as the plain one."""
    forward, spec = forward_of(subject, case.op), case.spec
    wanted = None
    for number, call in enumerate(spec.calls(Drawn(subject, case.dtype), case)):
        if subject.makes(number) and not (case.many and number):
            wanted = wanted if call.again else spec.expected(case, call)
            try:
                spec.answer(forward, case, call, wanted)
            except NotImplementedError:
                if not case.option:
                    raise
                return


@_check(
    cases=ops,
    fix="compute each row from its own numbers alone",
)
def lost_rows_leave_the_others_alone(subject: Subject, case: Row) -> None:
    """Rows of NaN, as padding of a graph may have, leave the rows beside them as they are without, and choose experts
    that the model has."""
    forward, spec, dtype = forward_of(subject, case.row), SPECS[case.row], compute_dtypes(subject)[0]
    asked = replace(spec.layers(dtype)[0], tokens=5)
    drawn = Drawn(subject, asked.dtype)
    call = OpCall(spec.op(drawn, asked), spec.inputs(drawn, asked), " beside a token of NaN")
    wanted = spec.expected(asked, call)
    for x in (call.inputs[name] for name in _CARRIES if name in call.inputs):
        x[1], x[3, ..., ::2] = float("nan"), float("nan")
    got = spec.call(forward, call)
    if got is NotImplemented:
        return
    spec.judge_lost(asked, got)
    rows = torch.tensor([0, 2, 4])
    answers = spec.outputs(call, got, 1 if isinstance(got, torch.Tensor) else 2)
    expect(
        all(isinstance(one, torch.Tensor) and len(one) == 5 for one in answers),
        f"{case.row} answers no row for each token",
    )
    others = tuple(one.cpu()[rows] for one in answers)
    kept = {
        name: Output(Expected(one.expected.value[rows], one.expected.bound[rows]), one.dtype)
        for name, one in wanted.items()
    }
    spec.judge(replace(asked, tokens=3), call, others if len(others) > 1 else others[0], kept, spec.lost)


@_check(
    cases=ops,
    fix="answer in a new tensor, and keep nothing by shape, by the tensor that came or from the first call: neither"
    " weights, nor tables, nor scratch space of another size",
)
def op_calls_follow_each_other(subject: Subject, case: Row) -> None:
    """Calls of one op for unlike layers and batches are each right: after weights were written over in place, where
    only the middle of a batch is new, where layers are handed the same tensor, which is then written over, and where
    another model was loaded to the same addresses. Earlier answers stay as they were."""
    forward, spec = forward_of(subject, case.row), SPECS[case.row]
    layers = list(spec.layers(compute_dtypes(subject)[0]))
    drawn = Drawn(subject, layers[0].dtype)
    made = [spec.op(drawn, layer) for layer in layers]
    layers.append(layers[0])
    before: dict[tuple[str, tuple[int, ...]], torch.Tensor] = {}
    answers: list[tuple[str, torch.Tensor, torch.Tensor]] = []
    lent: dict[str, torch.Tensor] = {}
    for at, (number, tokens, how) in enumerate(_SEQUENCE):
        if number == len(made):
            made.append(_loaded_over(made[0]))
        _update(made[number])
        asked = replace(layers[number], tokens=tokens)
        inputs = {name: _with_ends_of(before, name, x) for name, x in spec.inputs(drawn, asked).items()}
        for name in inputs.keys() - set(spec.may_write(inputs)) if how else ():
            if how == _OVER:
                lent[name].copy_(inputs[name])
            inputs[name] = lent[name]
        lent = inputs
        what = f"call {at + 1}, of {tokens} tokens, for layer {number},{how}"
        try:
            got = spec.answer(forward, asked, OpCall(made[number], inputs, f", {what} of {case.row}"))
        except CheckFailed as failed:
            # Where no call came before it, what the op computes is wrong.
            fix = failed.fix if answers else spec.fix_of(asked)
            raise CheckFailed(failed.what, fix=fix) from None
        if got is None:
            continue  # left to the host
        for out in got if isinstance(got, (tuple, list)) else [got]:
            answers.append((what, out, out.cpu().clone()))
        subject.synchronize()
        for earlier, out, kept in answers:
            expect(
                torch.equal(out.cpu(), kept),
                f"what {earlier} answered is changed by {what} while the model still reads it",
            )


def _update(op: Any) -> None:
    """Weights written over in place, as an update of the weights does."""
    for name, x in parameters(op).items():
        if name != "cos_sin_cache":
            x.data.mul_(-1.125)


def _loaded_over(op: Any) -> Any:
    """An op like it, whose weights and tables are others at the same addresses."""
    op = copy(op)
    if hasattr(op, "layer"):
        op.layer = copy(op.layer)
    for name, old in parameters(op).items():
        old.data.copy_(old.data.flip(0))
        new = old.data.view(old.shape)
        owner = op if hasattr(op, name) else op.layer
        setattr(owner, name, torch.nn.Parameter(new, False) if isinstance(old, torch.nn.Parameter) else new)
    return op


def _with_ends_of(
    before: dict[tuple[str, tuple[int, ...]], torch.Tensor], name: str, x: torch.Tensor
) -> torch.Tensor:
    """`x` with the first and the last row of the call before that had as many."""
    old = before.setdefault((name, tuple(x.shape)), x.clone())
    new, kept = (one.movedim(-1, 0) if name == "positions" else one for one in (x, old))
    new[0], new[-1] = kept[0], kept[-1]
    return x


@_check(
    cases=ops,
    fix="keep no tensor of a call; size a workspace by the largest number of rows, not one for each number",
)
def ops_keep_no_memory(subject: Subject, case: Row) -> None:
    """An op called with another number of rows each time, as prompts have, leaves nothing."""
    forward, spec = forward_of(subject, case.row), SPECS[case.row]
    layer = spec.layers(compute_dtypes(subject)[0])[0]
    drawn = Drawn(subject, layer.dtype)
    op, whole = spec.op(drawn, layer), spec.inputs(drawn, replace(layer, tokens=MOST_CALLS))

    def call(number: int) -> object:
        rows = slice(number + 1)
        inputs = {name: x[(..., rows) if name == "positions" else rows].clone() for name, x in whole.items()}
        return spec.call(forward, OpCall(op, inputs))

    expect_nothing_kept(subject, call, f"{case.row} of another number of rows each time")
