"""Level 5: replays of large batches and far numbers, of other kinds of positions, and batches that are not decodes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch

from sglang_platform.conformance.check import check, expect
from sglang_platform.conformance.checks.graphs import BUCKETS, CAPTURES, compare, decoding_requests
from sglang_platform.conformance.fixtures.captured_sizes import captured_sizes
from sglang_platform.conformance.fixtures.decoder import FAR, LONG, WINDOWED, DecodingRequests
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import attention_feature
from sglang_platform.conformance.subject import Subject
from sglang_platform.core.errors import PlatformError

__all__: list[str] = []

_LARGE = (8, 24, 96)


@check(
    level=Level.GRAPHS,
    requires=CAPTURES,
    hosts=["none"],
    fix="copy every input for all rows of the bucket, however many they are",
)
def large_batches_replay(subject: Subject) -> None:
    """Batches of up to 96 requests, of captured sizes and of those between, give what the eager model gives."""
    decoding_requests(subject)
    requests = DecodingRequests(subject, max(_LARGE) + 2)
    runner = requests.graph_runner(_LARGE)
    largest = min(captured_sizes(runner, _LARGE)[-1], requests.count)
    sizes = (largest, 9, 70, 24, 96, 12, 65, *((40, 96, 33) if subject.thorough else ()))
    for step, n in enumerate(min(n, largest) for n in sizes):
        which = [(i * 5 + step) % requests.count for i in range(requests.count)][:n]
        batch = requests.batch(which, step % 4)
        if runner.can_run_graph(batch):
            compare(requests, runner, batch, f"{n} requests")


@check(
    level=Level.GRAPHS,
    requires=CAPTURES,
    hosts=["none"],
    fix="keep tokens, positions, slots, rows and lengths in the integers that the host gives, at every replay",
)
def far_inputs_are_copied(subject: Subject) -> None:
    """Contexts of none, 700, 4,500 and 9,000 tokens in one batch, tokens and slots past 65,536 and positions past
    32,768 give what the eager model gives."""
    decoding_requests(subject)
    requests = DecodingRequests(subject, len(FAR.lengths), reach=FAR)
    runner = requests.graph_runner((1, 2, 4))
    for step, which in enumerate(([0, 1, 2, 3], [0], [3, 1, 0], [2, 0])):
        plain = requests.batch(which, step)
        if not runner.can_run_graph(plain):
            continue
        compare(requests, runner, plain, f"contexts of {[int(n) for n in requests.lengths[which]]} tokens")
    at = torch.tensor(requests.taken(runner, 4))
    for name, far in (
        ("input_ids", FAR.ids - 1 - 9000 * at),
        ("positions", FAR.places - 1 - 9000 * at),
        ("out_cache_loc", requests.slots.flatten().sort().values[-1 - at]),
    ):
        batch = requests.batch(at.tolist(), **{name: far})
        compare(requests, runner, batch, f"{name} of {far.tolist()}", f"copy {name} as it comes")


@check(
    level=Level.GRAPHS,
    requires=CAPTURES,
    hosts=["none"],
    fix="plan a replay for the lengths of now: the capture saw short ones, and the longest that the table of requests"
    " holds may come",
)
def long_contexts_replay(subject: Subject) -> None:
    """A request of 49,100 tokens, alone and beside a short one, gives what the eager model gives; so does the short one
    after it."""
    decoding_requests(subject)
    requests = DecodingRequests(subject, len(LONG.lengths), reach=LONG)
    runner = requests.graph_runner((1, 2))
    for step, which in enumerate(([1], [0], [0, 1], [1])):
        batch = requests.batch(which, step)
        if runner.can_run_graph(batch):
            compare(
                requests, runner, batch, f"contexts of {[int(n) for n in requests.lengths[which]]} tokens"
            )


@check(
    level=Level.GRAPHS,
    requires=[*CAPTURES, attention_feature("sliding_window")],
    hosts=["none"],
    fix="plan the layers with a window anew at every replay, as the others: where the window begins follows the length",
)
def windowed_layers_replay(subject: Subject) -> None:
    """A model with a layer that sees all and one that sees a window gives at each replay what the eager model gives, of
    requests shorter and longer than the window, that grow."""
    decoding_requests(subject)
    requests = DecodingRequests(subject, max(BUCKETS) + 1, reach=WINDOWED)
    runner = requests.graph_runner(BUCKETS)
    for step, n in enumerate((3, 1, max(BUCKETS), 2, 3)):
        which = requests.taken(runner, n)
        batch = requests.batch(which, step)
        if runner.can_run_graph(batch):
            compare(requests, runner, batch, f"step {step} of {len(which)} requests, one layer with a window")


@check(
    level=Level.GRAPHS,
    requires=CAPTURES,
    hosts=["none"],
    fix="keep `mrope_positions` [3, T] among the static inputs, in the batch that is captured, and copy them at every"
    " replay",
)
def positions_in_three_axes_are_copied(subject: Subject) -> None:
    """A model that takes its positions in three axes, as those that see pictures do, replays with the ones of now."""
    requests = decoding_requests(subject)
    requests.model.multimodal = True
    runner = requests.graph_runner(BUCKETS)
    for step, n in enumerate((3, 1, max(BUCKETS), 2)):
        which = requests.taken(runner, n)
        lengths = requests.lengths[torch.tensor(which)]
        axes = torch.stack((lengths + step, lengths // 2, lengths // 3 + 1))
        batch = requests.batch(which, step, mrope_positions=axes)
        compare(requests, runner, batch, f"step {step} with positions in three axes, {len(which)} requests")


@dataclass(frozen=True)
class Mode:
    name: str


def modes(subject: Subject, rng: random.Random) -> Iterator[Mode]:
    for name in ("extend", "mixed", "target_verify"):
        yield Mode(name)


@check(
    level=Level.GRAPHS,
    requires=CAPTURES,
    cases=modes,
    hosts=["none"],
    fix="can_run_graph() looks at forward_mode: a runner that captured decodes takes nothing but decodes",
)
def other_modes_are_left_to_the_model(subject: Subject, case: Mode) -> None:
    """`can_run_graph()` of a runner that captured decodes says no to prefills, mixed batches and drafts to verify, also
    where they are no larger than the graphs, and yes to decodes after that as before."""
    requests = decoding_requests(subject)
    runner = requests.graph_runner(BUCKETS)
    n = captured_sizes(runner, BUCKETS)[0]
    at, tokens = torch.arange(n), 2
    lengths = requests.lengths[at]
    positions = (lengths[:, None] + torch.arange(tokens)).reshape(-1)
    slots = torch.stack([requests.slots[i, m : m + tokens] for i, m in enumerate(lengths.tolist())])
    drafts = SimpleNamespace(draft_token_num=tokens, custom_mask=None, topk=1)
    batch = subject.parts.forward_batch(
        case.name,
        batch_size=n,
        input_ids=positions % 256,
        positions=positions,
        req_pool_indices=requests.rows[at],
        seq_lens=lengths + tokens,
        seq_lens_cpu=lengths + tokens,
        seq_lens_sum=int((lengths + tokens).sum()),
        out_cache_loc=slots.reshape(-1),
        extend_prefix_lens=lengths.to(torch.int32),
        extend_seq_lens=torch.full((n,), tokens, dtype=torch.int32),
        extend_prefix_lens_cpu=lengths.tolist(),
        extend_seq_lens_cpu=[tokens] * n,
        spec_info=drafts if case.name == "target_verify" else None,
    )
    decodes = requests.batch(list(range(n)))
    taken = runner.can_run_graph(decodes)
    expect(
        not runner.can_run_graph(batch),
        f"can_run_graph() says yes to a batch of mode {case.name}, of {n} requests and {n * tokens} tokens; decodes"
        " were captured",
    )
    expect(
        runner.can_run_graph(decodes) == taken,
        f"after a batch of mode {case.name} can_run_graph() says no to {n} decodes that it took before",
    )


@check(
    level=Level.GRAPHS,
    requires=CAPTURES,
    hosts=["none"],
    fix="copy what pp_proxy_tensors holds into static inputs, or run the model itself where the capture reads none",
)
def stage_inputs_are_followed(subject: Subject) -> None:
    """What an earlier pipeline stage hands over to `execute()` reaches the model in every step, of one bucket in turn
    and with padded rows, or is refused: never left out."""
    requests = decoding_requests(subject)
    runner = requests.graph_runner(BUCKETS)
    most = len(requests.taken(runner, 3))
    generator, width = subject.torch_rng(), requests.model.embedding.shape[1]
    for step, n in enumerate((most, most, max(1, most - 1), most)):
        batch = requests.batch(range(n), step)
        tensors = {
            name: torch.randn(n, width, generator=generator).to(requests.model.embedding)
            for name in ("hidden_states", "residual")
        }
        before = requests.contents()
        with torch.no_grad():
            requests.backend.init_forward_metadata(batch)
            expected = requests.model.forward(batch.input_ids, batch.positions, batch, tensors).clone()
        requests.restore(before)
        if not runner.can_run_graph(batch):
            continue
        try:
            with torch.no_grad():
                got: Any = runner.execute(batch, SimpleNamespace(tensors=tensors))
        except (NotImplementedError, PlatformError):
            return
        subject.synchronize()
        expect(
            got.shape == expected.shape
            and bool(((got.float() - expected.float()).abs() <= requests.tolerance(expected)).all()),
            f"in step {step}, of {n} requests, execute() answers as if the earlier stage had handed nothing over, or"
            " what it handed over before",
        )
