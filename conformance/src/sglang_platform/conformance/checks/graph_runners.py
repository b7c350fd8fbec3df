"""Level 5: what a graph runner leaves to the model, what it keeps, and how long a replay takes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from sglang_platform.conformance.check import Row, expect, rows
from sglang_platform.conformance.checks.graphs import BUCKETS, ReplayedModel, captured
from sglang_platform.conformance.fixtures.tensor_memory import bytes_in_tensors
from sglang_platform.conformance.fixtures.timing import Work, expect_ratio
from sglang_platform.conformance.subject import Subject

_NOT_SLOWER_THAN = 4.0


@captured(
    cases=rows(("larger", "extend", "mixed", "target_verify")),
    fix="can_run_graph() looks at forward_mode, and compares batch_size with the largest captured size: a runner that"
    " captured decodes takes nothing but decodes",
)
def other_batches_are_left_to_the_model(subject: Subject, case: Row) -> None:
    """`can_run_graph()` of a runner that captured decodes says no to a batch larger than every captured size, and to
    prefills, mixed batches and drafts to verify that are no larger, and yes to decodes after that as before."""
    model = ReplayedModel(subject, buckets=BUCKETS[:2] if case.row == "larger" else BUCKETS).capture()
    if case.row == "larger":
        n = model.sizes[-1]
        if n >= model.count:
            model = ReplayedModel(subject, n + 1, BUCKETS[:2]).capture()
        batch, what = model.batch(range(n + 1)), f"{n + 1} requests; the largest captured size is {n}"
    else:
        n = model.sizes[0]
        batch = model.batch_of(case.row, range(n), 2)
        what = f"a batch of mode {case.row}, of {n} requests and {2 * n} tokens; decodes were captured"
    decodes = model.batch(range(n))
    taken = case.row == "larger" or model.runner.can_run_graph(decodes)
    expect(not model.runner.can_run_graph(batch), f"can_run_graph() says yes to {what}")
    expect(
        model.runner.can_run_graph(decodes) == taken,
        f"after a batch that is {case.row} can_run_graph() says no to {n} decodes that were captured",
    )


@captured(
    fix="write into the captured output, keep nothing of a batch after execute() has returned, and no runner, graph or"
    " buffer on a class or in a module: a runner's memory goes with it",
)
def graphs_keep_no_memory(subject: Subject) -> None:
    """Bytes in tensors do not grow over replays, nor over runners that are built anew, as after each update of the
    weights."""
    model = ReplayedModel(subject).capture()

    def replays() -> None:
        for step in range(25):
            model.replayed(model.runner, model.batch(range(1 + step % max(BUCKETS)), step % 4))

    def runners() -> None:
        model.capture()
        model.replayed(model.runner, model.batch(model.takes(3)))

    for turn, what in ((replays, "25 replays"), (runners, "a runner that was built and dropped")):
        used = []
        for _ in range(4):
            turn()
            used.append(bytes_in_tensors(subject))
        grown = [after - before for before, after in pairwise(used)]
        expect(min(grown[1:]) <= 0, f"tensors take {grown} bytes more after {what}, each time")


@captured(
    fix="capture once and replay what was captured: no capture, no compilation and no copy of the model at a replay",
)
def replay_is_not_slower_than_eager(subject: Subject) -> None:
    """A replay takes no more than four times as long as the eager step of the same batch: it is there to be faster."""
    model = ReplayedModel(subject).capture()
    sizes = [n for n in model.sizes if n <= model.count]
    for n in sorted({*sizes[:1], *sizes[-1:]}):  # between them rows are padded, which takes their time
        batch = model.batch(range(n))

        def step_by_step(batch: Any = batch) -> None:
            model.backend.init_forward_metadata(batch)
            model.model.forward(batch.input_ids, batch.positions, batch)

        expect_ratio(
            subject,
            Work(lambda batch=batch: model.runner.execute(batch)),
            Work(step_by_step),
            most=_NOT_SLOWER_THAN,
            what=f"a replay of {n} requests",
            beside="the same step without a graph",
        )
