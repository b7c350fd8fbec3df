"""Level 5: a replayed verification of drafts follows the trees of its step, and not those of the capture."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch

from sglang_platform.conformance.check import NotApplicable, check
from sglang_platform.conformance.checks.graphs import CAPTURES, ReplayedModel
from sglang_platform.conformance.fixtures.attention_judge import refused_in_words
from sglang_platform.conformance.fixtures.decoder import VOCABULARY, DecodingRequests
from sglang_platform.conformance.fixtures.draft_trees import to_verify, tree
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.subject import Subject
from sglang_platform.core import GraphRunner

_BUCKETS = (1, 3, 4)
_CHAIN, _SISTERS, _TREE, _LINES = (
    tree(at) for at in ((-1, 0, 1, 2), (-1,) * 4, (-1, 0, 0, 1), (-1, 0, -1, 2))
)
_STEPS = (
    (_TREE, _LINES, _SISTERS),
    (_CHAIN, _TREE, _LINES),  # of the same bucket, with other trees
    (_LINES, _CHAIN),  # with a padded row
    (_TREE, _TREE, _CHAIN, _SISTERS),
    (_SISTERS, _LINES, _TREE),
    (_CHAIN,),
)
"""Of each step the trees of its requests."""


@dataclass(frozen=True)
class Verification:
    prefix_in_front: bool
    """Whether the cells of the prefix stand in front of each row of the mask."""


def verifications(subject: Subject, rng: random.Random) -> Iterator[Verification]:
    """The host's mask in both of its forms."""
    yield from (Verification(False), Verification(True))


@check(
    level=Level.GRAPHS,
    requires=CAPTURES,
    cases=verifications,
    hosts=["none"],
    fix="copy the trees of spec_info.custom_mask, of each request, into the static input that the graph reads, in every"
    " step, as core's DecodeInputs.load() does",
)
def trees_of_drafts_are_followed(subject: Subject, case: Verification) -> None:
    """A captured verification of drafts, replayed with a tree of its own for each request and with other trees in the
    next step, of as many requests as were captured and of fewer, agrees with the model run as it is. Trees may be
    refused in words where `draft_tree` is not declared."""
    declared = "draft_tree" in subject.declares.attention_features
    with nullcontext() if declared else refused_in_words("drafts that form a tree"):
        _replay(subject, case)


def _replay(subject: Subject, case: Verification) -> None:
    cls = subject.platform.get_graph_runner_cls()
    model = ReplayedModel(subject, buckets=_BUCKETS)
    if not issubclass(cls, GraphRunner):
        raise NotApplicable("the graph runner is not core's: the host says what it captures")
    # As the adapter says it of a host that decodes speculatively.
    with mock.patch.object(cls, "_drafts", return_value=(len(_TREE), True)):
        model.capture()
    for number, trees in enumerate(_STEPS):
        what = f"step {number}, of {len(trees)} requests, each with a tree of its own"
        model.replay(_batch(model, trees, number, case), what)


def _batch(requests: DecodingRequests, trees: Sequence[torch.Tensor], step: int, case: Verification) -> Any:
    count, n = len(trees), len(_TREE)
    prefixes = requests.lengths[:count]
    drafts = prefixes[:, None] + torch.arange(n)
    return requests.subject.parts.forward_batch(
        "target_verify",
        batch_size=count,
        input_ids=(drafts * 7 + step * 3 + 1).flatten() % VOCABULARY,
        positions=torch.cat([prefix + sees.sum(1) - 1 for prefix, sees in zip(prefixes, trees, strict=True)]),
        req_pool_indices=requests.rows[:count],
        seq_lens=prefixes,
        seq_lens_cpu=prefixes.clone(),
        seq_lens_sum=int(prefixes.sum()),
        out_cache_loc=requests.slots[torch.arange(count)[:, None], drafts].flatten(),
        spec_info=to_verify(trees, prefixes, case.prefix_in_front, requests.subject.device),
    )
