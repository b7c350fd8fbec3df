"""Level 5: a replayed decode graph computes what the eager model computes, for every batch it may be given.

A `ReplayedModel` is captured, replayed, updated and captured again: what must hold after each step stands there once,
with its message and its fix. What steps are taken is a table of histories (`replays`).
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest import mock

import torch

from sglang_platform.conformance.check import CheckFailed, NotApplicable, check, expect
from sglang_platform.conformance.fixtures.decoder import VOCABULARY, DecodingRequests
from sglang_platform.conformance.fixtures.torch_settings import changed_settings, settings
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import attention_backend, graph_capture, kv_kind
from sglang_platform.conformance.subject import Subject
from sglang_platform.core.errors import PlatformError

__all__ = ["BUCKETS", "ReplayedModel", "captured"]

BUCKETS = (1, 2, 4, 7)

captured = partial(
    check,
    level=Level.GRAPHS,
    requires=(graph_capture(), attention_backend(), kv_kind("mha")),
    hosts=["none"],
    seconds=600,
)
"""A check of what the platform's runner captures."""

_Changed = Iterator[tuple[str, list[int]]]


class ReplayedModel(DecodingRequests):
    """Decoding requests, and the platform's runner over their model, of graphs for batches of `buckets`."""

    history = ""
    """The name of what it goes through."""

    told: Any = None
    """The batch that attention was prepared for last in a replay that is judged."""

    def __init__(
        self, subject: Subject, count: int = max(BUCKETS) + 2, buckets: Sequence[int] = BUCKETS, **more: Any
    ) -> None:
        if subject.platform.get_graph_runner_cls() is None:
            raise NotApplicable("get_graph_runner_cls() answers None: the host's own runner is used")
        super().__init__(subject, count, **more)
        self.buckets = buckets

    def capture(self) -> ReplayedModel:
        """A new runner, which may come while requests are being served."""
        before = self.contents()
        self.runner = self.graph_runner(self.buckets)
        # A runner may capture other sizes than it was asked for, and leave what lies between them to the model.
        self.sizes = sorted({int(size) for size in getattr(self.runner, "capture_bs", None) or self.buckets})
        for where, slots in self._changed(before, self.contents()):
            what = f"capturing wrote {where} in slots {slots[:6]}"
            expect(not slots, what, fix="capture with padded inputs: slot 0, row 0, length 1")
        return self

    def takes(self, n: int) -> list[int]:
        """`n` requests, or as many as the runner takes."""
        return self.taken(self.runner, n)

    def replay(self, batch: Any, what: str, fix: str | None = None, handed: Any = None) -> None:
        """A step of the runner, and the same of the model: logits and cache agree, and nothing else has changed. The
        pool is then as it was, as if the slots were lent anew: a later replay that writes them again is seen.
        `handed`: what an earlier pipeline stage hands over, which the runner may refuse."""
        taken, before = self.can_run(self.runner, batch), self.contents()
        torch.rand(1), random.random()  # further than any seed that a replay may set
        drawn = settings(self.subject.device)
        with self._prepared() as prepared:
            try:
                got = self.replayed(self.runner, batch, handed)
            except (NotImplementedError, PlatformError):
                if handed is None:
                    raise
                return
        changed, after = changed_settings(drawn, settings(self.subject.device)), self.contents()
        self.restore(before)
        wanted = self.eager(batch, handed)
        limit = self.tolerance(wanted)
        self.agree(got, wanted, what, fix)
        if not taken:
            return
        own = set(batch.out_cache_loc.tolist())
        for where, slots in self._changed(before, after):
            others = [slot for slot in slots if slot not in own]
            expect(
                not others,
                f"{what}: the replay wrote {where} in slots {others[:6]}, which belong to requests that are not in the"
                " batch",
                fix="give padded rows out_cache_loc 0, req_pool_indices 0 and a sequence length of 1, at every replay",
            )
        eager = self.contents()
        self.restore(before)
        for where, slots in self._changed(after, eager, limit):
            expect(
                not slots,
                f"{what}: after the replay {where} differ in slots {slots[:6]} from what the eager model leaves there",
                fix="copy out_cache_loc into the static inputs, and point padded rows to slot 0",
            )
        bs, holds = getattr(self.runner, "bs", None), [n for n in self.sizes if n >= batch.batch_size]
        expect(
            bs is None or bs in [n for n in holds if n == holds[0] or not prepared or n in prepared],
            f"{what}: after a replay of {batch.batch_size} requests bs is {bs}; it is the captured size last replayed,"
            f" of {self.sizes}, and attention was prepared for batches of {sorted(set(prepared))}",
            fix="set bs to the bucket at every replay",
        )
        expect(
            not changed,
            f"{what}: a replay changes {', '.join(changed)}",
            fix="replay under the caller's settings: no seed, no gradients, no default of torch's changed",
        )

    def agree(self, got: torch.Tensor, wanted: torch.Tensor, what: str, fix: str | None = None) -> None:
        """Logits of the runner are those of the model."""
        expect(
            got.shape == wanted.shape,
            f"{what}: execute() answers {list(got.shape)}, the model {list(wanted.shape)}",
            fix="replay the smallest captured size that holds the batch, and return its first batch_size rows",
        )
        limit = self.tolerance(wanted)
        difference = (got.float() - wanted.float()).abs().nan_to_num(nan=torch.inf, posinf=torch.inf)
        if float(difference.max()) > limit:
            row = int(difference.max(dim=1).values.argmax())
            raise CheckFailed(
                f"{what}: row {row} of {len(wanted)} of the replay differs from the eager model by"
                f" {float(difference[row].max()):.3g} (at most {limit:.2g}, logits up to"
                f" {float(wanted.abs().max()):.3g})",
                fix=fix,
            )

    def _changed(self, then: list[torch.Tensor], now: list[torch.Tensor], limit: float = 0.0) -> _Changed:
        """Of each buffer the slots whose numbers differ by more than `limit`; padded rows may write to those of page
        0."""
        for at, (old, new) in enumerate(zip(then, now, strict=True)):
            same = ((old.float() - new.float()).abs() <= limit) | (old.isnan() & new.isnan()) | (old == new)
            slots = torch.nonzero(~same.flatten(1).all(dim=1)).flatten().tolist()
            where = f"the {('keys', 'values')[at % 2]} of layer {at // 2}"
            yield where, [slot for slot in slots if slot >= self.pool.page_size]

    @contextlib.contextmanager
    def _prepared(self) -> Iterator[list[int]]:
        """The sizes of the batches that attention is prepared for meanwhile: a runner may pad to more than the smallest
        bucket that holds the batch."""
        sizes: list[int] = []
        name = "init_forward_metadata_out_graph"
        ask = getattr(self.backend, name, None)

        def asked(batch: Any, *more: Any, **named: Any) -> Any:
            sizes.append(int(batch.batch_size))
            self.told = batch
            return ask(batch, *more, **named)  # type: ignore[misc]

        with mock.patch.object(self.backend, name, asked) if ask else contextlib.nullcontext():
            yield sizes


@dataclass(frozen=True)
class Input:
    name: str
    rows: str
    """Which of them are others than at the step before."""


def inputs(subject: Subject, rng: random.Random) -> Iterator[Input]:
    """Each input: all rows, the first, the last, their order, and the caller's own tensor written over in place."""
    for rows in _CHANGES:
        for name in ("input_ids", "positions", "seq_lens", "req_pool_indices", "out_cache_loc"):
            yield Input(name, rows)


@captured(
    cases=inputs,
    founds="graph runner",
    fix="copy all rows of this input into the static buffer that the graph reads, at every replay: whether a tensor is"
    " the one of the step before, and what its first row or its sum is, says nothing of its values",
)
def every_input_is_copied(subject: Subject, case: Input) -> None:
    """A batch that differs from the last one in rows of one input gives what the eager model gives: no replay reads an
    input of the capture, of the step before, or a caller's tensor of then."""
    model = ReplayedModel(subject).capture()
    which = model.takes(3)
    batch, others = model.batch(which), _others(model, which)
    if case.rows == "of which all changed":
        _expect_read(model, which, others)
    model.replayed(model.runner, batch)
    values = getattr(batch, case.name)
    changed = _CHANGES[case.rows](values, others[case.name].to(values))
    if case.rows == "written over in place":
        values.copy_(changed)
        if case.name == "seq_lens":
            batch.seq_lens_cpu, batch.seq_lens_sum = changed.cpu(), int(changed.sum())
    else:
        batch = model.batch(which, **{case.name: changed.cpu()})
    model.replay(batch, f"a step with {case.name} {case.rows}", f"copy {case.name} at every replay")


def _expect_read(model: ReplayedModel, which: list[int], others: dict[str, torch.Tensor]) -> None:
    """A step is right; where not, the input that the replay does not read is named."""
    first = model.batch(which)
    try:
        model.replay(first, "the first step")
    except CheckFailed as failed:
        told = {name: getattr(model.told, name)[: len(which)].cpu().clone() for name in others if model.told}
        # Of one input's case another may be the one that is missing.
        missing = [one for one in others if _is_unread(model, which, one, others[one])]
        if not missing:
            raise
        if set(others) - set(missing) <= {"out_cache_loc"}:  # which shows in no logits
            raise CheckFailed(
                f"{failed.what}; the replay answers the same whatever it is given",
                fix="run the captured graph in every replay, on the static inputs that the batch was copied into",
            ) from None
        unread = ", ".join(missing)
        what = (
            f"{failed.what}; with other {unread} the eager model answers otherwise, and the replay does not"
        )
        fix = f"copy {unread} into the static buffer that the graph reads, at every replay"
        if told and all(torch.equal(told[name], getattr(first, name).cpu()) for name in missing):
            what += f", though attention is prepared for the {unread} of the batch"
            fix = (
                f"write what init_forward_metadata_out_graph() makes of {unread} into buffers that are made once, at"
                f" every replay, and {unread} into the static input: a graph reads the tensors of its capture"
            )
        raise CheckFailed(what, case={"name": unread}, fix=fix) from None


_CHANGES: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "of which all changed": lambda values, other: other,
    "of which the first changed": lambda values, other: torch.cat((other[:1], values[1:])),
    "of which the last changed": lambda values, other: torch.cat((values[:-1], other[-1:])),
    "of which rows changed places": lambda values, other: (
        values.roll(1) if len(values) < 3 else torch.cat((values[:1], values[1:].roll(1)))
    ),
    "written over in place": lambda values, other: other,
}


def _others(model: ReplayedModel, which: list[int]) -> dict[str, torch.Tensor]:
    """Another value of each input, with which the same requests are a batch still."""
    at = torch.tensor(which)
    lengths = model.lengths[at]
    return {
        "input_ids": (at * 5 + 11) % VOCABULARY,
        "positions": lengths + 2,
        "seq_lens": lengths.clamp(min=1),
        "req_pool_indices": model.rows[(at + 4) % model.count],
        "out_cache_loc": model.slots[at, lengths + 3],
    }


def _is_unread(model: ReplayedModel, which: list[int], name: str, value: torch.Tensor) -> bool:
    """Whether a replay is the same with another value of an input, where the eager model is not."""
    before, answers = model.contents(), []
    for batch in (model.batch(which), model.batch(which, **{name: value})):
        for run in (lambda one: model.replayed(model.runner, one), model.eager):
            model.restore(before)
            answers.append(run(batch).clone())
    model.restore(before)
    return torch.equal(answers[0], answers[2]) and not torch.equal(answers[1], answers[3])
