"""Level 4: attention of speculative decoding: slots of drafts, drafts that are verified, and steps of a draft model."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace

import torch

from sglang_platform.conformance.check import CheckFailed, NotApplicable, check, expect
from sglang_platform.conformance.fixtures.attention_case import AttentionCase
from sglang_platform.conformance.fixtures.attention_cases import eight_bit_caches, extend, steps
from sglang_platform.conformance.fixtures.attention_features import each_beside_others
from sglang_platform.conformance.fixtures.attention_judge import judge, refused_in_words
from sglang_platform.conformance.fixtures.attention_rows import SERVED
from sglang_platform.conformance.fixtures.attention_step import AttentionStep
from sglang_platform.conformance.fixtures.draft_trees import DraftsBehindPrefixes, to_verify, tree
from sglang_platform.conformance.fixtures.op_calls import only_lent
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.subject import Subject
from sglang_platform.core.attention.speculative import DraftPlace

_PREFIXES = (1, 15, 16, 17, 64, 130, 700)
_TREE = (-1, 0, 0, 1, 1, 2, 2)
_DRAFT_STEPS = 3
_PREFIX_IN_FRONT, _DRAFTS_ALONE = "with the prefix in front", "of the drafts alone"


_check = partial(check, level=Level.KERNELS, requires=SERVED, hosts=("none",), seconds=120)


@dataclass(frozen=True)
class DraftsToVerify:
    """`parents`: of each draft the one it follows, -1 for the prefix. `mask`: how the host writes who sees whom; None
    where the drafts are a chain and it writes nothing."""

    step: AttentionCase
    parents: tuple[int, ...]
    mask: str | None


def _trees(rng: random.Random) -> Iterator[tuple[int, ...]]:
    yield (-1, 0, 1, 2)  # a chain, told as a tree
    yield (-1, -1, -1)  # sisters alone
    yield _TREE
    yield (-1, 0, 1, 2, 0, 4, 5, 0)  # three lines of unlike length
    yield tuple(rng.randrange(-1, at) if at else -1 for at in range(12))


def drafts(subject: Subject, rng: random.Random) -> Iterator[DraftsToVerify]:
    """Chains of one to eight drafts, and trees, behind prefixes at the edges of blocks; with a window, a cap, sinks and
    8-bit caches where they are declared."""
    masks = (_PREFIX_IN_FRONT, _DRAFTS_ALONE)
    for case in steps(extend())(subject, rng):
        found: list[tuple[AttentionCase, tuple[int, ...], str | None]] = []
        found += [(case, tuple(range(-1, chain - 1)), None) for chain in (1, 2, 4, 8)]
        for at, parents in enumerate(_trees(rng)):
            both = at in (2, 3) or subject.thorough
            found += [(case, parents, mask) for mask in (masks if both else masks[at % 2 :][:1])]
        for one in each_beside_others(subject, case):
            found += [(one, (-1, 0, 1, 2), None), (one, _TREE, _DRAFTS_ALONE)]
        for scaled in eight_bit_caches(subject) if case.kind == "mha" else ():
            found.append((replace(case, **scaled), (-1, 0, 1, 2), None))
        for step, parents, mask in found:
            requests = tuple((prefix, len(parents)) for prefix in _PREFIXES)
            yield DraftsToVerify(replace(step, requests=requests), parents, mask)


@_check(
    cases=drafts,
    fix="leave forward_verify() to core's AttentionBackend, which tells each draft as a row of forward_decode(); or"
    " read spec_info.custom_mask: a row for each draft, with the cells of the prefix in front where it has prefix + n",
)
def drafts_are_verified(subject: Subject, case: DraftsToVerify) -> None:
    """Draft tokens see the prefix of their request, the drafts that they follow and themselves: not their sisters, not
    other requests, and all of the prefix, with the host's mask in both of its forms. Steps with one tree for all
    requests and with one for each, and a decode between them, on one backend. Trees may be refused in words where
    `draft_tree` is not declared."""
    step, n = DraftsBehindPrefixes(subject, case.step), len(case.parents)
    step.handed_over = list(range(n))
    count = len(case.step.requests)
    own, alone = tree(case.parents), torch.eye(n, dtype=torch.bool)
    may_refuse = case.mask is not None and "draft_tree" not in subject.declares.attention_features
    with refused_in_words("drafts that form a tree") if may_refuse else nullcontext():
        _verify(step, [own] * count, case.mask)
        decode = AttentionStep.following(step, "decode", range(count), 0.9)
        decode.__class__ = AttentionStep
        judge(decode, decode.got())
        if case.mask is not None:
            _verify(step, [alone] * count, case.mask)
            # Each request has a tree of its own.
            trees = [own, tree(tuple(range(-1, n - 1))), alone]
            _verify(step, [trees[at % 3] for at in range(count)], case.mask)


def _verify(step: DraftsBehindPrefixes, sees: Sequence[torch.Tensor], mask: str | None) -> None:
    """Hand the drafts over as a batch that verifies: its lengths are those of the prefixes."""
    step.sees, step.as_they_came = sees, "itself"
    prefixes = torch.tensor([cached for cached, _ in step.case.requests])
    in_front = None if mask is None else mask == _PREFIX_IN_FRONT
    spec_info = to_verify(sees, prefixes, in_front, step.subject.device)
    positions = torch.cat([prefix + one.sum(1) - 1 for prefix, one in zip(prefixes, sees, strict=True)])
    step.hand_over("target_verify", step.new_slots(), positions, spec_info)
    out = step.got()
    try:
        judge(step, out)
    except CheckFailed:
        if step.case.kv_scales is None:
            raise
        step.as_they_came = "all"
        judge(step, out)


def accepted(subject: Subject, rng: random.Random) -> Iterator[AttentionCase]:
    """One, four and unlike numbers of new tokens behind prefixes at the edges of blocks; with a window, a cap and sinks
    where they are declared."""
    new = [tuple(zip(_PREFIXES, itertools.cycle(counts), strict=False)) for counts in ((1,), (4,), (1, 5, 2))]
    yield from steps(*(extend(*requests) for requests in new))(subject, rng)
    for case in steps(extend(*new[-1]))(subject, rng):
        yield from each_beside_others(subject, case)


@_check(
    cases=accepted,
    fix="leave forward_draft_extend() to core's AttentionBackend, which tells it as a forward_extend(); or compute it"
    " as one: seq_lens counts the new tokens, extend_seq_lens says how many they are",
)
def accepted_drafts_are_read(subject: Subject, case: AttentionCase) -> None:
    """The step that brings a draft model's cache up to date is an extend by the accepted tokens, in both layers of a
    draft model of two, and a decode afterwards reads them."""
    second = AttentionStep(subject, case)
    second.batch.forward_mode = type(second.batch.forward_mode).DRAFT_EXTEND_V2
    first = second.beside(second.layer_id - 1)
    first.__dict__["backend"] = second.backend
    judge(first, first.got())
    judge(second, second.forward(*second.handed(), prepare=False))
    decode = second.following("decode", range(len(case.requests)), 0.9)
    judge(decode, decode.got())


@dataclass(frozen=True)
class Beams:
    """Step `at` of the three of a draft model, in which each request has `beams`."""

    step: AttentionCase
    at: int
    beams: int


def beams(subject: Subject, rng: random.Random) -> Iterator[Beams]:
    """One beam, three and four, in the first and the last of three steps."""
    for count, at in itertools.product((1, 3, 4), (0, 2)):
        for case in steps(extend(*((prefix, _DRAFT_STEPS * count) for prefix in _PREFIXES)))(subject, rng):
            yield Beams(case, at, count)


@_check(
    cases=beams,
    fix="leave forward_draft() to core's AttentionBackend; or read beam t's tokens of the steps so far at positions"
    " seq_lens + t * steps on",
)
def beams_of_a_draft_model_are_apart(subject: Subject, case: Beams) -> None:
    """In a step of a draft model each beam sees its request's prefix and its own tokens of the steps so far, and no
    other beam's."""
    step, tokens = DraftsBehindPrefixes(subject, case.step), case.beams * _DRAFT_STEPS
    step.store_new_tokens()
    prefixes = torch.tensor([cached for cached, _ in case.step.requests])
    step.handed_over = [beam * _DRAFT_STEPS + case.at for beam in range(case.beams)]
    sees = torch.zeros(case.beams, tokens, dtype=torch.bool)
    for beam in range(case.beams):
        sees[beam, beam * _DRAFT_STEPS : beam * _DRAFT_STEPS + case.at + 1] = True
    step.sees = [sees] * len(prefixes)
    slots = torch.tensor(step.new_slots()).reshape(len(prefixes), tokens)[:, step.handed_over]
    step.q = [q[step.handed_over] for q in step.q]
    step.case = replace(case.step, requests=tuple((prefix, case.beams) for prefix in prefixes.tolist()))
    step.hand_over(
        "decode",
        slots.flatten(),
        (prefixes + case.at).repeat_interleave(case.beams),
        SimpleNamespace(topk=case.beams, custom_mask=None),
    )
    step.backend.drafts = DraftPlace(case.at, case.beams, _DRAFT_STEPS)
    judge(step, step.got())


_LONGEST = 300
_RAGGED = "DSPARK"
"""The algorithm that verifies another number of tokens of each request."""


@dataclass(frozen=True)
class DraftSlots:
    """`drafts`: of each request at most. `page`: so many slots of a request lie one after the other. `ragged`: requests
    have fewer than that."""

    requests: int
    drafts: int
    page: int
    ragged: bool = False


def draft_slots(subject: Subject, rng: random.Random) -> Iterator[DraftSlots]:
    for requests, drafts, page in (
        (1, 1, 1),
        (3, 4, 1),
        (3, 4, 16),
        (2, 8, 4),
        (0, 4, 1),
        (5, 70, 64),
        (200, 5, 16),
    ):
        yield DraftSlots(requests, drafts, page)
    supports = getattr(subject.platform, "supports_speculative_algorithm", lambda algorithm: False)
    if supports(_RAGGED):
        yield from (DraftSlots(requests, 6, 4, ragged=True) for requests in (3, 40))


@check(
    level=Level.KERNELS,
    cases=draft_slots,
    fix="read each slot from the request's row: req_to_token[req_pool_indices[i], start_offset[i] : end_offset[i]], one"
    " request after the other; slots of a request are consecutive within a page only",
)
def draft_slots_are_read_from_the_table(subject: Subject, case: DraftSlots) -> None:
    """The function of `get_speculative_cache_locs_fn()` answers the slots that the table has for the tokens to verify,
    of requests in any rows, behind prefixes that end anywhere in a page, with pages anywhere in the pool: also where
    the same tensors hold other numbers in the next step, which leaves earlier answers as they are. It changes none."""
    function = getattr(subject.platform, "get_speculative_cache_locs_fn", lambda: None)()
    if function is None:
        raise NotApplicable("get_speculative_cache_locs_fn() answers None: the host's own is used")
    subject.built = function
    given: dict[str, torch.Tensor] = {}
    got = before = None
    for step, numbers in enumerate(_steps(subject, case)):
        for name, x in numbers.items():
            given.setdefault(name, x.to(subject.device, copy=True)).copy_(x)
        if got is not None:
            what = "its answer changes when the host writes to the table: it is a part of it"
            expect(torch.equal(got, before), what, fix="answer a new tensor, of one request too")
        sizes = {"batch_size": case.requests, "draft_token_num": case.drafts, "device": subject.device}
        with only_lent(**given):
            got = function(**given, **sizes)
        count = case.requests * case.drafts
        integers = isinstance(got, torch.Tensor) and not got.is_floating_point()
        expect(
            integers and got.shape == (count,), f"it answers {got!r:.200}, not {count} integers in one row"
        )
        before = got.clone()
        table, rows, first, end = numbers.values()
        wanted = [slot for r, a, b in zip(rows, first, end, strict=True) for slot in table[r, a:b].tolist()]
        for at, (answered, slot) in enumerate(zip(got.tolist(), wanted, strict=False)):
            expect(
                answered == slot,
                f"in step {step} slot {at} of {len(wanted)} is {answered}, and the table has {slot}",
            )


def _steps(subject: Subject, case: DraftSlots) -> Iterator[dict[str, torch.Tensor]]:
    """Two steps, by the keywords that the host gives."""
    rng = subject.torch_rng()
    for _ in range(2):
        pages = -(-(_LONGEST + case.drafts) // case.page)
        first = (
            torch.randperm((case.requests + 3) * pages, generator=rng).view(case.requests + 3, pages, 1) + 1
        )
        start = torch.randint(1, _LONGEST, (case.requests,), generator=rng)
        fewest = 1 if case.ragged else case.drafts
        yield {
            "req_to_token": (first * case.page + torch.arange(case.page)).flatten(1).int(),
            "req_pool_indices": torch.randperm(case.requests + 3, generator=rng)[: case.requests],
            "start_offset": start,
            "end_offset": start + torch.randint(fewest, case.drafts + 1, start.shape, generator=rng),
        }
