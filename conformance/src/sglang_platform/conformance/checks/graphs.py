"""Level 5: a replayed decode graph computes what the eager model computes, for every batch it may be given."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch

from sglang_platform.conformance.check import CheckFailed, NotApplicable, check, expect
from sglang_platform.conformance.fixtures.captured_sizes import captured_sizes
from sglang_platform.conformance.fixtures.decoder import VOCABULARY, DecodingRequests
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import attention_backend, graph_capture, kv_kind
from sglang_platform.conformance.subject import Subject

__all__ = ["BUCKETS", "CAPTURES", "compare", "decoding_requests", "padding_slots"]

BUCKETS = (1, 2, 4, 7)

CAPTURES = (graph_capture(), attention_backend(), kv_kind("mha"))


@dataclass(frozen=True)
class Batch:
    batch_size: int


def batches(subject: Subject, rng: random.Random) -> Iterator[Batch]:
    """Every size up to the largest bucket: those that were captured, and those that are padded."""
    for size in range(1, max(BUCKETS) + 1):
        yield Batch(size)


def decoding_requests(subject: Subject) -> DecodingRequests:
    if subject.platform.get_graph_runner_cls() is None:
        raise NotApplicable("get_graph_runner_cls() answers None: the host's own runner is used")
    return DecodingRequests(subject, max(BUCKETS) + 2)


def compare(requests: DecodingRequests, runner: Any, batch: Any, what: str, fix: str | None = None) -> None:
    """Replay and eager run agree on logits and on what they leave in the cache."""
    before = requests.contents()
    replayed = requests.replayed(runner, batch)
    after_replay = requests.contents()
    requests.restore(before)
    eager = requests.eager(batch)
    after_eager = requests.contents()
    expect(
        replayed.shape == eager.shape,
        f"{what}: execute() answers {list(replayed.shape)}, the model {list(eager.shape)}",
        fix="replay the smallest captured size that holds the batch, and return its first batch_size rows",
    )
    limit = requests.tolerance(eager)
    difference = (replayed.float() - eager.float()).abs()
    difference = torch.where(difference.isnan(), torch.full_like(difference, float("inf")), difference)
    if float(difference.max()) > limit:
        row = int(difference.max(dim=1).values.argmax())
        raise CheckFailed(
            f"{what}: row {row} of {len(eager)} of the replay differs from the eager model by"
            f" {float(difference[row].max()):.3g} (at most {limit:.2g}, logits up to {float(eager.abs().max()):.3g})",
            fix=fix,
        )
    padding = padding_slots(requests)
    for at, (mine, theirs) in enumerate(zip(after_replay, after_eager, strict=True)):
        same = ((mine.float() - theirs.float()).abs() <= limit) | (mine.isnan() & theirs.isnan())
        wrong = ~same.flatten(1).all(dim=1)
        wrong[:padding] = False
        slots = torch.nonzero(wrong).flatten().tolist()
        expect(
            not slots,
            f"{what}: after the replay the {('keys', 'values')[at % 2]} of layer {at // 2} differ in slots {slots[:6]}"
            " from what the eager model leaves there",
            fix="copy out_cache_loc into the static inputs, and point padded rows to slot 0",
        )


def padding_slots(requests: DecodingRequests) -> int:
    """How many slots, from 0 on, padded rows may write to."""
    return int(requests.pool.page_size)


@dataclass(frozen=True)
class Input:
    name: str


def inputs(subject: Subject, rng: random.Random) -> Iterator[Input]:
    for name in ("input_ids", "positions", "seq_lens", "req_pool_indices", "out_cache_loc"):
        yield Input(name)


@check(
    level=Level.GRAPHS,
    requires=CAPTURES,
    cases=inputs,
    founds="graph runner",
    hosts=["none"],
    fix="copy this input into the static buffer that the graph reads, at every replay",
)
def every_input_is_copied(subject: Subject, case: Input) -> None:
    """A batch that differs from the last one in one input gives what the eager model gives: no replay reads an input of
    the capture or of the step before."""
    requests = decoding_requests(subject)
    runner = requests.graph_runner(BUCKETS)
    which = requests.taken(runner, 3)
    first = requests.batch(which)
    others = _others(requests, which)
    try:
        compare(requests, runner, first, "the first step")
    except CheckFailed as failed:
        # Of one input's case another may be the one that is missing.
        missing = [one for one in others if _is_unread(requests, runner, which, one, others[one])]
        if not missing:
            raise
        if set(others) - set(missing) <= {"out_cache_loc"}:  # which shows in no logits
            raise CheckFailed(
                f"{failed.what}; the replay answers the same whatever it is given",
                fix="run the captured graph in every replay, on the static inputs that the batch was copied into",
            ) from None
        unread = ", ".join(missing)
        raise CheckFailed(
            f"{failed.what}; with other {unread} the eager model answers otherwise, and the replay does not",
            case={"name": unread},
            fix=f"copy {unread} into the static buffer that the graph reads, at every replay",
        ) from None
    requests.replayed(runner, first)
    changed = others[case.name]
    second = requests.batch(which, **{case.name: changed})
    compare(requests, runner, second, f"a step with other {case.name}", f"copy {case.name} at every replay")
    # The caller's tensors are its own again once execute() has returned.
    third = requests.batch(which, **{case.name: changed.clone()})
    kept = requests.replayed(runner, third)
    getattr(third, case.name).zero_()
    again = requests.replayed(runner, requests.batch(which, **{case.name: changed.clone()}))
    expect(
        torch.equal(kept, again),
        f"a replay changes after the {case.name} of an earlier batch were overwritten",
        fix="keep no reference to the batch's own tensors",
    )


@check(
    level=Level.GRAPHS,
    requires=CAPTURES,
    cases=batches,
    hosts=["none"],
    founds="graph runner",
    fix="choose the smallest captured size that holds the batch, copy every input, pad with slot 0, row 0 and length 1,"
    " replay, and return the first rows",
)
def replay_equals_eager(subject: Subject, case: Batch) -> None:
    """For every captured batch size and every size in between, over several steps, the replay gives the logits and
    leaves the keys and values that the eager model does."""
    requests = decoding_requests(subject)
    runner = requests.graph_runner(BUCKETS)
    captured = captured_sizes(runner, BUCKETS)
    told: list[int | None] = []
    for step in range(4):
        which = [(i * 3 + step) % requests.count for i in range(requests.count)][: case.batch_size]
        batch = requests.batch(which, step)
        if not runner.can_run_graph(batch):
            expect(
                case.batch_size not in captured,
                f"can_run_graph() says no to {case.batch_size} requests, and {captured} were captured",
            )
            continue  # left to the model
        with _prepared(runner, requests.backend) as prepared:
            compare(requests, runner, batch, f"step {step} with {case.batch_size} requests")
        told.append(getattr(runner, "bs", None))
        holds = [size for size in captured if size >= case.batch_size]
        larger = [size for size in holds if not prepared or size in prepared]
        expect(
            told[-1] is None or told[-1] in (holds[0], *larger),
            f"after a replay of {case.batch_size} requests bs is {told[-1]}; it is the captured size last replayed, of"
            f" {captured}, and attention was prepared for batches of {sorted(set(prepared))}",
            fix=_SET,
        )
        # The host reads rows of the capture by it: of another batch's size they are another batch's.
        largest = requests.batch(range(min(captured[-1], requests.count)), step)
        if runner.can_run_graph(largest):
            runner.execute(largest)
    expect(
        len(set(told)) < 2,
        f"after replays of {case.batch_size} requests, of larger batches between, bs is {told}; it is the captured size"
        " last replayed",
        fix=_SET,
    )


_SET = "set bs to the bucket at every replay"


@contextlib.contextmanager
def _prepared(runner: Any, backend: Any) -> Iterator[list[int]]:
    """The sizes of the batches that attention is prepared for in replays meanwhile: a runner may pad to more than the
    smallest bucket that holds the batch."""
    sizes: list[int] = []
    name = "init_forward_metadata_out_graph"
    ask, execute = getattr(backend, name, None), runner.execute

    def asked(batch: Any, *more: Any, **named: Any) -> Any:
        sizes.append(int(batch.batch_size))
        return ask(batch, *more, **named)  # type: ignore[misc]

    def executed(batch: Any, *more: Any, **named: Any) -> Any:
        with mock.patch.object(backend, name, asked) if ask else contextlib.nullcontext():
            return execute(batch, *more, **named)

    with mock.patch.object(runner, "execute", executed):
        yield sizes


@check(
    level=Level.GRAPHS,
    requires=CAPTURES,
    cases=inputs,
    hosts=["none"],
    fix="copy all rows of this input at every replay: whether a tensor is the one of the step before, and what its"
    " first row or its sum is, says nothing of its values",
)
def inputs_are_read_at_every_replay(subject: Subject, case: Input) -> None:
    """One row of an input that changes, the first, the last, or two that change places, and the caller's own tensor
    that is written over in place, give what the eager model gives."""
    requests = decoding_requests(subject)
    runner = requests.graph_runner(BUCKETS)
    which = requests.taken(runner, 4)
    plain = requests.batch(which)
    given = getattr(plain, case.name)
    for what, change in _CHANGES.items():
        values = getattr(requests.batch(which), case.name)
        other = _others(requests, which)[case.name].to(values)
        requests.replayed(runner, requests.batch(which))
        batch = requests.batch(which, **{case.name: change(values, other).cpu()})
        compare(requests, runner, batch, f"{case.name} of which {what}", f"copy {case.name} at every replay")
    requests.replayed(runner, plain)
    given.copy_(_others(requests, which)[case.name])
    if case.name == "seq_lens":
        plain.seq_lens_cpu, plain.seq_lens_sum = given.cpu(), int(given.sum())
    compare(
        requests, runner, plain, f"{case.name} written over in place", f"copy {case.name} at every replay"
    )


def _first(values: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return torch.cat((other[:1], values[1:]))


def _last(values: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return torch.cat((values[:-1], other[-1:]))


def _exchanged(values: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return values.roll(1) if len(values) < 3 else torch.cat((values[:1], values[1:].roll(1)))


_CHANGES = {
    "the first row changed": _first,
    "the last row changed": _last,
    "rows changed places": _exchanged,
}


def _others(requests: DecodingRequests, which: list[int]) -> dict[str, torch.Tensor]:
    """Another value of each input, with which the same requests are a batch still."""
    at = torch.tensor(which)
    lengths = requests.lengths[at]
    return {
        "input_ids": (at * 5 + 11) % VOCABULARY,
        "positions": lengths + 2,
        "seq_lens": lengths.clamp(min=1),
        "req_pool_indices": requests.rows[(at + 4) % requests.count],
        "out_cache_loc": requests.slots[at, lengths + 3],
    }


def _is_unread(
    requests: DecodingRequests, runner: Any, which: list[int], name: str, value: torch.Tensor
) -> bool:
    """Whether a replay is the same with another value of an input, where the eager model is not."""
    before, answers = requests.contents(), []
    for batch in (requests.batch(which), requests.batch(which, **{name: value})):
        for run in (lambda one: requests.replayed(runner, one), requests.eager):
            requests.restore(before)
            answers.append(run(batch).clone())
    requests.restore(before)
    return torch.equal(answers[0], answers[2]) and not torch.equal(answers[1], answers[3])


@check(
    level=Level.GRAPHS,
    requires=CAPTURES,
    cases=batches,
    hosts=["none"],
    fix="give padded rows out_cache_loc 0, req_pool_indices 0 and a sequence length of 1, at every replay",
)
def padded_rows_touch_the_padding_slot_only(subject: Subject, case: Batch) -> None:
    """A batch that is smaller than the one before it changes no slot but those of its own new tokens."""
    requests = decoding_requests(subject)
    runner = requests.graph_runner(BUCKETS)
    requests.replayed(runner, requests.batch(range(max(BUCKETS))))  # leaves its inputs in the static buffers
    before = requests.contents()
    which = [requests.count - 1 - i for i in range(case.batch_size)]
    batch = requests.batch(which, 1)
    requests.replayed(runner, batch)
    own = set(batch.out_cache_loc.tolist())
    for at, (then, now) in enumerate(zip(before, requests.contents(), strict=True)):
        changed = set(torch.nonzero((then != now).flatten(1).any(dim=1)).flatten().tolist())
        wrong = sorted(slot for slot in changed - own if slot >= padding_slots(requests))
        expect(
            not wrong,
            f"a replay of {case.batch_size} requests wrote the {('keys', 'values')[at % 2]} of layer {at // 2} in slots"
            f" {wrong[:6]}, which belong to requests that are not in the batch",
        )
