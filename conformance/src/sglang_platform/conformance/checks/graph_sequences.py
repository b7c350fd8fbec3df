"""Level 5: what happens between replays: weights that change in place, eager batches, batches of unlike sizes."""

from __future__ import annotations

from typing import Any

import torch

from sglang_platform.conformance.check import check, expect
from sglang_platform.conformance.checks.graphs import BUCKETS, CAPTURES, compare, decoding_requests
from sglang_platform.conformance.fixtures.captured_sizes import captured_sizes
from sglang_platform.conformance.fixtures.decoder import DecodingRequests
from sglang_platform.conformance.fixtures.timing import Work, expect_ratio
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_NOT_SLOWER_THAN = 4.0
_REPLAYS = 300
"""Of one graph: more than a counter of eight bits counts."""


@check(
    level=Level.GRAPHS,
    requires=CAPTURES,
    hosts=["none"],
    fix="let the graph read the model's own tensors at every replay: no packed, cast or transposed copy of a weight"
    " that is made at capture",
)
def weights_changed_in_place_are_seen(subject: Subject) -> None:
    """When the model's tensors get other values in place after the capture, as an update of the weights without a new
    capture gives them, every replay computes with the new ones."""
    requests = decoding_requests(subject)
    runner = requests.graph_runner(BUCKETS)
    batches = [requests.batch(range(n)) for n in (max(BUCKETS), 3, 1)]
    before = [_kept(requests, runner, batch) for batch in batches]
    _change_in_place(requests, 1)
    for batch, old in zip(batches, before, strict=True):
        n = batch.batch_size
        compare(requests, runner, batch, f"after the weights changed in place, {n} requests")
        expect(
            not torch.equal(old, _kept(requests, runner, batch)),
            f"a replay of {n} requests has the old weights",
        )


@check(
    level=Level.GRAPHS,
    requires=CAPTURES,
    hosts=["none"],
    fix="keep the metadata that a graph reads in buffers of its own, which no eager batch, and no other size, writes",
)
def eager_batches_between_replays(subject: Subject) -> None:
    """A batch that is larger than every graph, prefills of as many requests and of others, shorter and longer than what
    is replayed, and an idle batch, run without a graph on the same backend, change nothing of the replays after them,
    nor these of them."""
    requests = decoding_requests(subject)
    runner = requests.graph_runner(BUCKETS)
    everybody = range(requests.count)
    for step, which in enumerate(([0, 1, 2], [4], list(range(max(BUCKETS))))):
        compare(requests, runner, requests.batch(which, step), f"step {step}, {len(which)} requests")
        before = requests.contents()
        expected = requests.eager(requests.batch(everybody, step))
        requests.restore(before)
        _ = _kept(requests, runner, requests.batch(which, step))
        requests.restore(before)
        again = requests.eager(requests.batch(everybody, step))
        limit = requests.tolerance(expected)
        expect(
            bool(((again.float() - expected.float()).abs() <= limit).all()),
            f"{requests.count} requests run without a graph give other logits after a replay of {len(which)}",
        )
        for tokens, fresh, of in ((2, False, [0, 2]), (1, True, which), (2, False, which[::-1])):
            _prefill(requests, of, tokens, fresh=fresh)
            _idle(requests, runner)
            after = f"a prefill of {tokens * len(of)} tokens{' without a prefix' * fresh} and an idle batch"
            compare(requests, runner, requests.batch(which, step + 1), f"after {after}, {len(which)}")


@check(
    level=Level.GRAPHS,
    requires=CAPTURES,
    hosts=["none"],
    fix="fill every static row anew at each replay, and choose the graph by the batch at hand",
)
def unlike_batches_follow_each_other(subject: Subject) -> None:
    """On one runner: large, small, other requests, one, large again, lengths that shrink and grow, the same batch
    twice: each replay gives what the eager model gives, and the answers before keep their values where the host kept a
    copy."""
    requests = decoding_requests(subject)
    runner = requests.graph_runner(BUCKETS)
    last = requests.count - 1
    for at, (which, step) in enumerate(
        (
            (list(range(max(BUCKETS))), 0),
            ([last], 3),
            ([1, 0], 1),
            ([1, 0], 1),
            ([5, 3, 1], 4),
            (list(range(last, last - max(BUCKETS), -1)), 2),
            ([2, 4, 6, 0, 1], 0),
            ([0], 0),
            ([3, 2], 5),
        )
    ):
        compare(requests, runner, requests.batch(which, step), f"batch {at}, requests {which} at step {step}")


@check(
    level=Level.GRAPHS,
    requires=CAPTURES,
    hosts=["none"],
    seconds=300,
    fix="capture once and replay what was captured: no capture, no compilation and no copy of the model at a replay",
)
def replay_is_not_slower_than_eager(subject: Subject) -> None:
    """A replay takes no more than four times as long as the eager step of the same batch: it is there to be faster."""
    requests = decoding_requests(subject)
    runner = requests.graph_runner(BUCKETS)
    sizes = [n for n in captured_sizes(runner, BUCKETS) if n <= requests.count]
    for n in sorted({*sizes[:1], *sizes[-1:]}):  # between them rows are padded, which takes their time
        batch = requests.batch(range(n))

        def step_by_step(batch: Any = batch) -> None:
            requests.backend.init_forward_metadata(batch)
            requests.model.forward(batch.input_ids, batch.positions, batch)

        expect_ratio(
            subject,
            Work(lambda batch=batch: runner.execute(batch)),
            Work(step_by_step),
            most=_NOT_SLOWER_THAN,
            what=f"a replay of {n} requests",
            beside="the same step without a graph",
        )


@check(
    level=Level.GRAPHS,
    requires=CAPTURES,
    hosts=["none"],
    fix="launch the graph at every execute(); where events, flags or buffers are used in turn, wait for the one that is"
    " used again",
)
def hundreds_of_replays_are_followed(subject: Subject) -> None:
    """Of 300 replays of one graph, each with other inputs than the one before, every one is computed."""
    requests = decoding_requests(subject)
    runner = requests.graph_runner(BUCKETS)
    which = requests.taken(runner, 1)
    batches = [requests.batch(which, step) for step in range(5)]
    expected = [requests.eager(batch) for batch in batches]
    for replay in range(_REPLAYS):
        at = replay % len(batches)
        off = float((requests.replayed(runner, batches[at]).float() - expected[at].float()).abs().max())
        expect(
            off <= requests.tolerance(expected[at]),
            f"replay {replay + 1} of one graph differs from the eager model by {off:.3g}, and those before do not",
        )


def _kept(requests: DecodingRequests, runner: Any, batch: Any) -> torch.Tensor:
    return requests.replayed(runner, batch)


def _change_in_place(requests: DecodingRequests, number: int) -> None:
    """Weights number `number`, in the tensors that the model has."""
    model = requests.model
    names = ("embedding", "positions", "q", "k", "v")
    kept = {name: getattr(model, name) for name in names}
    model.load(number)
    for name, old in kept.items():
        new = getattr(model, name)
        for mine, theirs in zip(*((x if isinstance(x, list) else [x]) for x in (old, new)), strict=True):
            mine.copy_(theirs)
        setattr(model, name, old)
    requests.subject.synchronize()


def _prefill(requests: DecodingRequests, which: list[int], tokens: int, *, fresh: bool) -> None:
    """Each request is given `tokens` more, or `fresh` ones as its first, without a graph; the cache is put back."""
    before = requests.contents()
    at = torch.tensor(which)
    lengths = torch.zeros_like(requests.lengths[at]) if fresh else requests.lengths[at]
    new = torch.full((len(at),), tokens, dtype=torch.int64)
    positions = (lengths[:, None] + torch.arange(tokens)).reshape(-1)
    slots = torch.stack(
        [requests.slots[i, n : n + tokens] for i, n in zip(at, lengths.tolist(), strict=True)]
    )
    batch = requests.subject.parts.forward_batch(
        "extend",
        batch_size=len(at),
        input_ids=(positions * 3 + 1) % 256,
        positions=positions,
        req_pool_indices=requests.rows[at],
        seq_lens=lengths + tokens,
        seq_lens_cpu=lengths + tokens,
        seq_lens_sum=int((lengths + tokens).sum()),
        out_cache_loc=slots.reshape(-1),
        extend_prefix_lens=lengths.to(torch.int32),
        extend_seq_lens=new.to(torch.int32),
        extend_prefix_lens_cpu=lengths.tolist(),
        extend_seq_lens_cpu=new.tolist(),
    )
    requests.eager(batch)
    requests.restore(before)


def _idle(requests: DecodingRequests, runner: Any) -> None:
    """A step in which this rank has no request: the host runs it without a graph where the runner says no to it."""
    nothing = torch.empty(0, dtype=torch.int64)
    batch = requests.subject.parts.forward_batch(
        "idle",
        batch_size=0,
        input_ids=nothing,
        positions=nothing,
        req_pool_indices=nothing,
        seq_lens=nothing,
        seq_lens_cpu=nothing,
        seq_lens_sum=0,
        out_cache_loc=nothing,
    )
    if runner.can_run_graph(batch):
        out = requests.replayed(runner, batch)
        expect(len(out) == 0, f"a replay of an idle batch answers {list(out.shape)}")
