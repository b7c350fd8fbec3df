"""Level 4: the slots of the tokens that speculative decoding verifies."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from sglang_platform.conformance.check import NotApplicable, check, expect
from sglang_platform.conformance.fixtures.op_calls import only_lent
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.subject import Subject

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
    the same tensors hold other numbers in the next step. It changes none of them."""
    function = getattr(subject.platform, "get_speculative_cache_locs_fn", lambda: None)()
    if function is None:
        raise NotApplicable("get_speculative_cache_locs_fn() answers None: the host's own is used")
    subject.built = function
    given: dict[str, torch.Tensor] = {}
    for step, numbers in enumerate(_steps(subject, case)):
        for name, x in numbers.items():
            given.setdefault(name, x.to(subject.device, copy=True)).copy_(x)
        sizes = {"batch_size": case.requests, "draft_token_num": case.drafts, "device": subject.device}
        with only_lent(**given):
            got = function(**given, **sizes)
        count = case.requests * case.drafts
        integers = isinstance(got, torch.Tensor) and not got.is_floating_point()
        expect(
            integers and got.shape == (count,), f"it answers {got!r:.200}, not {count} integers in one row"
        )
        table, rows, first, end = numbers.values()
        wanted = [slot for r, a, b in zip(rows, first, end, strict=True) for slot in table[r, a:b].tolist()]
        answered = got.tolist()[: len(wanted)]
        wrong = [at for at, (one, other) in enumerate(zip(answered, wanted, strict=True)) if one != other]
        at = wrong[0] if wrong else 0
        expect(
            not wrong,
            f"in step {step} slot {at} of {len(wanted)} is {answered[at : at + 1]}, and the table has"
            f" {wanted[at : at + 1]}",
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
