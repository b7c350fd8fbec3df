"""Level 5: histories of a served model: what each step must leave is `ReplayedModel`'s to say."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest import mock

import torch

from sglang_platform.conformance.check import NotApplicable, Row, expect, mended_by
from sglang_platform.conformance.checks.graphs import BUCKETS, ReplayedModel, captured
from sglang_platform.conformance.fixtures.attention_judge import refused_in_words
from sglang_platform.conformance.fixtures.decoder import FAR, GROWN, LONG, VOCABULARY, WINDOWED
from sglang_platform.conformance.fixtures.draft_trees import to_verify, tree
from sglang_platform.conformance.subject import Subject
from sglang_platform.core import GraphRunner

_MOST = max(BUCKETS)
_LARGE = (8, 24, 96)
_REPLAYS = 300
"""Of one graph: more than a counter of eight bits counts."""


_REPLAY = (
    "choose the smallest captured size that holds the batch, copy every input, pad with slot 0, row 0 and length 1,"
    " replay, and return the first rows"
)


@dataclass(frozen=True)
class _History:
    """`steps` are taken by a model that `prepare` has changed before the capture."""

    fix: str | None
    """What mends where they part; None: the check's."""
    steps: Callable[[ReplayedModel], None]
    prepare: Callable[[ReplayedModel], None] = lambda model: None
    given: dict[str, Any] = field(default_factory=dict)
    """To the model."""
    feature: str = ""
    """Of attention, which it needs."""
    refusable: tuple[str, str] = ("", "")
    """A feature without which the platform may refuse this in words, and what that is."""


def histories(subject: Subject, rng: random.Random) -> Iterator[Row]:
    """New weights, every size up to the largest bucket, captured and padded, and what a server goes through."""
    for name, one in _HISTORIES.items():
        if not one.feature or one.feature in subject.declares.attention_features:
            yield Row(name)


@captured(
    cases=histories,
    founds="graph runner",
    fix=_REPLAY,
)
def replay_equals_eager(subject: Subject, case: Row) -> None:
    """Through captures, replays, updates of the weights, batches without a graph, verifications of drafts and captures
    anew, each replay gives the logits and leaves the keys and values that the eager model does, and changes nothing
    else. Trees of drafts may be refused in words where `draft_tree` is not declared."""
    history = _HISTORIES[case.row]
    given = {name: value(subject) if callable(value) else value for name, value in history.given.items()}
    model = ReplayedModel(subject, **given)
    model.history = case.row
    history.prepare(model)
    feature, what = history.refusable
    declared = {"", *subject.declares.attention_features}
    with mended_by(history.fix), nullcontext() if feature in declared else refused_in_words(what):
        history.steps(model.capture())


def _requests(n: int, model: ReplayedModel) -> None:
    """`n` of them, and between their steps as many as their graph holds, or the largest: of another batch's size the
    host reads another batch's rows, and of one as large as this bucket rows may be left over."""
    asked = []
    for step in range(4):
        which = [(i * 3 + step) % model.count for i in range(n)]
        taken = model.can_run(model.runner, model.batch(which, step))
        expect(
            taken or n not in model.sizes,
            f"can_run_graph() says no to {n} requests, and {model.sizes} were captured",
        )
        size = model.sizes[-1] if step % 2 else next((size for size in model.sizes if size >= n), n)
        asked += [(which, step), ([*reversed(range(model.count))][:size], step)]
    _in_turn(asked, model)


def _in_turn(batches: Sequence[tuple[int | Sequence[int], int]], model: ReplayedModel) -> None:
    """Batches of these requests, or of so many, at these steps."""
    for at, (which, step) in enumerate(batches):
        which = model.takes(min(which, model.count)) if isinstance(which, int) else which
        axes, lengths = {}, model.lengths[torch.tensor(which)]
        if model.model.multimodal:
            axes = {"mrope_positions": torch.stack((lengths + step, lengths // 2, lengths // 3 + 1))}
        what = f"requests {which[:9]} at step {step}, contexts of {lengths[:9].tolist()} tokens"
        model.replay(model.batch(which, step, **axes), f"{model.history}, batch {at}, {what}")


def _large(model: ReplayedModel) -> None:
    most = min(model.sizes[-1], model.count)
    sizes = (most, 9, 70, 24, 96, 12, 65, *((40, 96, 33) if model.subject.thorough else ()))
    asked = [(step, min(n, most)) for step, n in enumerate(sizes)]
    _in_turn([([(i * 5 + step) % model.count for i in range(n)], step % 4) for step, n in asked], model)


def _far(model: ReplayedModel) -> None:
    _in_turn(_FAR, model)
    at = torch.tensor(model.takes(4))
    for name, far in (
        ("input_ids", FAR.ids - 1 - 9000 * at),
        ("positions", FAR.places - 1 - 9000 * at),
        ("out_cache_loc", model.slots.flatten().sort().values[-1 - at]),
    ):
        batch = model.batch(at.tolist(), **{name: far})
        model.replay(batch, f"{name} of {far.tolist()}", f"copy {name} as it comes")


def _updated(in_place: bool, model: ReplayedModel) -> None:
    """Other weights, in the tensors that the model has or in new ones, which are captured anew."""
    batches = [model.batch(range(n)) for n in (_MOST, 3, 1)]
    for batch in batches:
        model.replay(batch, f"{batch.batch_size} requests", _REPLAY)
    before = [model.replayed(model.runner, batch) for batch in batches]
    kept = {name: getattr(model.model, name) for name in ("embedding", "positions", "q", "k", "v")}
    model.model.load(1)
    if in_place:
        for name, old in kept.items():
            new = getattr(model.model, name)
            for mine, theirs in zip(*((x if isinstance(x, list) else [x]) for x in (old, new)), strict=True):
                mine.copy_(theirs)
            setattr(model.model, name, old)
        model.subject.synchronize()
    else:
        model.capture()
    how = "the weights changed in place" if in_place else "a weight update and a new capture"
    for batch, old in zip(batches, before, strict=True):
        model.replay(batch, f"after {how}, {batch.batch_size} requests")
        again = model.replayed(model.runner, batch)
        expect(not torch.equal(old, again), f"after {how} a replay of {len(old)} has the old weights")


def _between(model: ReplayedModel) -> None:
    """Beside replays: a batch that is larger than every graph, prefills of as many requests and of others, shorter and
    longer, and steps in which this rank has no request."""
    everybody = range(model.count)
    for step, which in enumerate(([0, 1, 2], [4], list(range(_MOST)))):
        model.replay(model.batch(which, step), f"step {step}, {len(which)} requests")
        before = model.contents()
        expected = model.eager(model.batch(everybody, step))
        model.restore(before)
        model.replayed(model.runner, model.batch(which, step))
        model.restore(before)
        again = model.eager(model.batch(everybody, step))
        model.agree(
            again, expected, f"{model.count} requests without a graph, after a replay of {len(which)}"
        )
        for tokens, fresh, of in ((2, False, [0, 2]), (1, True, which), (2, False, which[::-1])):
            before = model.contents()
            model.eager(model.batch_of("extend", of, tokens, fresh=fresh))
            model.restore(before)
            idle = model.batch_of("idle", [], 1)
            if model.runner.can_run_graph(idle):
                out = model.replayed(model.runner, idle)
                expect(len(out) == 0, f"a replay of an idle batch answers {list(out.shape)}")
            after = f"a prefill of {tokens * len(of)} tokens{' without a prefix' * fresh} and an idle batch"
            model.replay(model.batch(which, step + 1), f"after {after}, {len(which)}")


def _hundreds(model: ReplayedModel) -> None:
    batches = [model.batch(model.takes(1), step) for step in range(5)]
    expected = [model.eager(batch) for batch in batches]
    for replay in range(_REPLAYS):
        got = model.replayed(model.runner, batches[replay % 5])
        model.agree(got, expected[replay % 5], f"replay {replay + 1} of one graph")


def _stages(model: ReplayedModel) -> None:
    most, width = len(model.takes(3)), model.model.embedding.shape[1]
    generator = model.subject.torch_rng()
    for step, n in enumerate((most, most, max(1, most - 1), most)):
        batch = model.batch(range(n), step)
        handed = {
            name: torch.randn(n, width, generator=generator).to(model.model.embedding)
            for name in ("hidden_states", "residual")
        }
        if model.runner.can_run_graph(batch):
            model.replay(batch, f"in step {step}, of {n} requests, with inputs of a stage", handed=handed)


_CHAIN, _SISTERS, _TREE, _LINES = (
    tree(at) for at in ((-1, 0, 1, 2), (-1,) * 4, (-1, 0, 0, 1), (-1, 0, -1, 2))
)
_TREES = (
    (_TREE, _LINES, _SISTERS),
    (_CHAIN, _TREE, _LINES),  # of the same bucket, with other trees
    (_LINES, _CHAIN),  # with a padded row
    (_TREE, _TREE, _CHAIN, _SISTERS),
    (_SISTERS, _LINES, _TREE),
    (_CHAIN,),
)
"""Of each step the trees of its requests."""


def _take_drafts(model: ReplayedModel) -> None:
    """Capture as the adapter does where the host decodes speculatively."""
    cls, capture = model.subject.platform.get_graph_runner_cls(), model.graph_runner
    if not issubclass(cls, GraphRunner):
        raise NotApplicable("the graph runner is not core's: the host says what it captures")

    def with_drafts(batch_sizes: Sequence[int]) -> Any:
        with mock.patch.object(cls, "_drafts", return_value=(len(_TREE), True)):
            return capture(batch_sizes)

    model.__dict__["graph_runner"] = with_drafts


def _verified(prefix_in_front: bool, model: ReplayedModel) -> None:
    """`prefix_in_front`: whether the cells of the prefix stand in front of each row of the host's mask."""
    for step, trees in enumerate(_TREES):
        count = len(trees)
        prefixes = model.lengths[:count]
        drafts = prefixes[:, None] + torch.arange(len(_TREE))
        depths = [prefix + sees.sum(1) - 1 for prefix, sees in zip(prefixes, trees, strict=True)]
        batch = model.subject.parts.forward_batch(
            "target_verify",
            batch_size=count,
            input_ids=(drafts * 7 + step * 3 + 1).flatten() % VOCABULARY,
            positions=torch.cat(depths),
            req_pool_indices=model.rows[:count],
            seq_lens=prefixes,
            seq_lens_cpu=prefixes.clone(),
            seq_lens_sum=int(prefixes.sum()),
            out_cache_loc=model.slots[torch.arange(count)[:, None], drafts].flatten(),
            spec_info=to_verify(trees, prefixes, prefix_in_front, model.subject.device),
        )
        model.replay(batch, f"step {step}, of {count} requests, each with a tree of its own")


def _ask_for_gradients(model: ReplayedModel) -> None:
    for name in ("embedding", "positions"):
        getattr(model.model, name).requires_grad_(True)


def _see_pictures(model: ReplayedModel) -> None:
    model.model.multimodal = True


_FAR: Any = (([0, 1, 2, 3], 0), ([0], 1), ([3, 1, 0], 2), ([2, 0], 3))
_UNLIKE: Any = (
    *((list(range(_MOST)), 0), ([_MOST + 1], 3), ([1, 0], 1), ([1, 0], 1), ([5, 3, 1], 4)),
    *((list(range(_MOST + 1, 1, -1)), 2), ([2, 4, 6, 0, 1], 0), ([0], 0), ([3, 2], 5)),
)
_HISTORIES = {
    # First: what a class keeps of a runner shows in the next one, whatever that is asked.
    "weights captured anew": _History(
        "a new runner captures anew: keep no graphs, weights or outputs on the class or in a module",
        partial(_updated, False),
    ),
    **{f"{n} requests": _History(None, partial(_requests, n)) for n in range(1, _MOST + 1)},
    "batches of unlike sizes": _History(
        "fill every static row anew at each replay, and choose the graph by the batch at hand",
        partial(_in_turn, _UNLIKE),
    ),
    "up to 96 requests": _History(
        "copy every input for all rows of the bucket, however many they are",
        _large,
        given={"count": max(_LARGE) + 2, "buckets": _LARGE},
    ),
    "the smallest pages": _History(
        None,
        partial(_in_turn, ((3, 0), (1, 1))),
        given={"page": lambda subject: min(subject.declares.page_sizes)},
    ),
    "contexts of 0 to 3000 tokens": _History(
        "let nothing that is fixed at the capture bound a replay: a length read as a number outside the graph, a split"
        " or a width; bound it by the longest context of the request table, or read the static lengths on the device",
        partial(_in_turn, _FAR),
        given={"count": len(GROWN.lengths), "buckets": (1, 2, 4), "reach": GROWN},
    ),
    "contexts of 0 to 9000 tokens": _History(
        "keep tokens, positions, slots, rows and lengths in the integers that the host gives, at every replay",
        _far,
        given={"count": len(FAR.lengths), "buckets": (1, 2, 4), "reach": FAR},
    ),
    "a context of 49100 tokens": _History(
        "plan a replay for the lengths of now: the capture saw short ones, and the longest that the table of requests"
        " holds may come",
        partial(_in_turn, (([1], 0), ([0], 1), ([0, 1], 2), ([1], 3))),
        given={"count": len(LONG.lengths), "buckets": (1, 2), "reach": LONG},
    ),
    "one layer with a window": _History(
        "plan the layers with a window anew at every replay, as the others: where the window begins follows the length",
        partial(_in_turn, ((3, 0), (1, 1), (_MOST, 2), (2, 3), (3, 4))),
        given={"count": _MOST + 1, "reach": WINDOWED},
        feature="sliding_window",
    ),
    "positions in three axes": _History(
        "keep `mrope_positions` [3, T] among the static inputs, in the batch that is captured, and copy them at every"
        " replay",
        partial(_in_turn, ((3, 0), (1, 1), (_MOST, 2), (2, 3))),
        _see_pictures,
    ),
    "weights that ask for gradients": _History(
        "replay under the caller's settings: no seed, no gradients, no default of torch's changed",
        partial(_in_turn, ((3, 0), (3, 0))),
        _ask_for_gradients,
    ),
    "inputs of a stage": _History(
        "copy what pp_proxy_tensors holds into static inputs, or run the model itself where the capture reads none",
        _stages,
    ),
    "weights that change in place": _History(
        "let the graph read the model's own tensors at every replay: no packed, cast or transposed copy of a weight"
        " that is made at capture",
        partial(_updated, True),
    ),
    "batches without a graph between": _History(
        "keep the metadata that a graph reads in buffers of its own, which no eager batch, and no other size, writes",
        _between,
    ),
    **{
        f"trees of drafts {where}": _History(
            "copy the trees of spec_info.custom_mask, of each request, into the static input that the graph reads, in"
            " every step, as core's DecodeInputs.load() does",
            partial(_verified, in_front),
            _take_drafts,
            given={"buckets": (1, 3, 4)},
            refusable=("draft_tree", "drafts that form a tree"),
        )
        for where, in_front in (("alone", False), ("behind their prefix", True))
    },
    "hundreds of replays": _History(
        "launch the graph at every execute(); where events, flags or buffers are used in turn, wait for the one that is"
        " used again",
        _hundreds,
    ),
}
