"""Level 5: what a graph runner does beside replaying: capturing, declining, and letting go of what it took."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch

from sglang_platform.conformance.check import check, expect
from sglang_platform.conformance.checks.graphs import (
    BUCKETS,
    CAPTURES,
    compare,
    decoding_requests,
    padding_slots,
)
from sglang_platform.conformance.fixtures.captured_sizes import captured_sizes
from sglang_platform.conformance.fixtures.decoder import DecodingRequests
from sglang_platform.conformance.fixtures.tensor_memory import bytes_in_tensors
from sglang_platform.conformance.fixtures.torch_settings import changed_settings, settings
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []


@dataclass(frozen=True)
class Pages:
    page_size: int


def page_sizes(subject: Subject, rng: random.Random) -> Iterator[Pages]:
    """The smallest, where slot 1 is lent already, and the next."""
    for size in sorted(subject.declares.page_sizes)[:2]:
        yield Pages(size)


@check(
    level=Level.GRAPHS,
    requires=CAPTURES,
    cases=page_sizes,
    hosts=["none"],
    fix="capture with padded inputs: slot 0, row 0, length 1",
)
def capture_leaves_the_cache_alone(subject: Subject, case: Pages) -> None:
    """Capturing writes to no slot but the padding ones: it also happens while requests are being served."""
    decoding_requests(subject)
    requests = DecodingRequests(subject, max(BUCKETS) + 2, page=case.page_size)
    before = requests.contents()
    requests.graph_runner(BUCKETS)
    for at, (then, now) in enumerate(zip(before, requests.contents(), strict=True)):
        changed = torch.nonzero((then != now).flatten(1).any(dim=1)).flatten().tolist()
        wrong = [slot for slot in changed if slot >= padding_slots(requests)]
        expect(
            not wrong,
            f"capturing wrote the {('keys', 'values')[at % 2]} of layer {at // 2} in slots {wrong[:6]}",
        )


@check(
    level=Level.GRAPHS,
    requires=CAPTURES,
    hosts=["none"],
    fix="compare batch_size with the largest captured size",
)
def larger_batches_are_left_to_the_model(subject: Subject) -> None:
    """`can_run_graph()` says no to a batch that is larger than every captured size."""
    requests = decoding_requests(subject)
    runner = requests.graph_runner(BUCKETS[:2])
    largest = captured_sizes(runner, BUCKETS[:2])[-1]
    if largest >= requests.count:
        requests = DecodingRequests(subject, largest + 1)
        runner = requests.graph_runner(BUCKETS[:2])
    batch = requests.batch(range(largest + 1))
    expect(
        not runner.can_run_graph(batch),
        f"can_run_graph() says yes to {largest + 1} requests; the largest captured size is {largest}",
    )
    expect(
        runner.can_run_graph(requests.batch(range(largest))),
        f"can_run_graph() says no to {largest} requests, which were captured",
    )


@check(
    level=Level.GRAPHS,
    requires=CAPTURES,
    hosts=["none"],
    fix="a new runner captures anew: keep no graphs, weights or outputs on the class or in a module",
)
def recapture_sees_new_weights(subject: Subject) -> None:
    """A runner that is built after a weight update replays with the new weights, in place of the old tensors or not."""
    requests = decoding_requests(subject)
    runner = requests.graph_runner(BUCKETS)
    batch = requests.batch(requests.taken(runner, 3))
    old = requests.replayed(runner, batch)
    requests.model.load(1)
    again = requests.graph_runner(BUCKETS)
    compare(requests, again, batch, "after a weight update and a new capture")
    expect(not torch.equal(old, requests.replayed(again, batch)), "the new capture replays the old weights")


@check(
    level=Level.GRAPHS,
    requires=CAPTURES,
    hosts=["none"],
    fix="keep no runner, graph or buffer on a class or in a module: a runner's memory is its own, and goes with it",
)
def runners_let_go_of_their_memory(subject: Subject) -> None:
    """Runners that are built anew, as after each update of the weights, take no more memory together than one does."""
    requests = decoding_requests(subject)
    used = []
    for _ in range(4):
        runner = requests.graph_runner(BUCKETS)
        requests.replayed(runner, requests.batch(requests.taken(runner, 3)))
        del runner
        used.append(bytes_in_tensors(subject))
    grown = [after - before for before, after in pairwise(used)]
    expect(
        min(grown[1:]) <= 0,
        f"tensors take {grown[1]} and {grown[2]} bytes more with each runner that was built and dropped",
    )


@check(
    level=Level.GRAPHS,
    requires=CAPTURES,
    hosts=["none"],
    fix="replay under the caller's settings: no seed, no gradients, no default of torch's changed",
)
def replays_leave_torch_alone(subject: Subject) -> None:
    """A replay neither draws nor seeds torch's random numbers, records no gradients though weights may ask for them,
    and leaves torch's defaults as they were."""
    requests = decoding_requests(subject)
    for name in ("embedding", "positions"):
        getattr(requests.model, name).requires_grad_(True)
    runner = requests.graph_runner(BUCKETS)
    batch = requests.batch(requests.taken(runner, 3))
    for _ in range(2):
        torch.rand(1), random.random()  # further than any seed that a replay may set
        before = settings(subject.device)
        requests.replayed(runner, batch)
        wrong = changed_settings(before, settings(subject.device))
        expect(not wrong, f"a replay changes {', '.join(wrong)}")


@check(
    level=Level.GRAPHS,
    requires=CAPTURES,
    hosts=["none"],
    fix="write into the captured output, and keep nothing of a batch after execute() has returned",
)
def replays_keep_no_memory(subject: Subject) -> None:
    """Memory does not grow over replays: as many bytes in tensors after fifty more as before."""
    requests = decoding_requests(subject)
    runner = requests.graph_runner(BUCKETS)
    used = []
    for _ in range(3):
        for step in range(25):
            requests.replayed(runner, requests.batch(range(1 + step % max(BUCKETS)), step % 4))
        used.append(bytes_in_tensors(subject))
    grown = used[2] - used[1]
    expect(
        grown <= 0 or used[1] - used[0] <= 0,
        f"tensors take {used[1] - used[0]} bytes more after 25 replays, and {grown} more after another 25",
    )
