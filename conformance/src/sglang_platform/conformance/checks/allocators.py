"""Level 3: the paged allocator against a model that knows nothing but sets of pages."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from sglang_platform.conformance.check import CheckFailed, check, expect
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.oracles.allocator_history import SLOT_DTYPES
from sglang_platform.conformance.oracles.allocator_model import AllocatorModel
from sglang_platform.conformance.oracles.allocator_search import (
    AllocatorFailure,
    search_with_hypothesis,
    search_with_walks,
)
from sglang_platform.conformance.oracles.allocator_watch import WatchedAllocator
from sglang_platform.conformance.requirement import Requirement, all_of, page_size, paged_allocator
from sglang_platform.conformance.subject import Subject

__all__ = [
    "HISTORIES",
    "PAGED",
    "Paging",
    "alloc_decode",
    "alloc_extend",
    "build",
    "expect_adds_up",
    "paged_sizes",
    "pagings",
    "shown",
]

HISTORIES = "histories of the paged allocator"
"""A part in the sense of `Check.founds`: what random histories find of one call, a check of that call tells better."""

_WHOLE = 16
"""Pages of up to this many tokens are tried with a prefix and new tokens of every length."""

PAGED: tuple[Requirement, ...] = (all_of(paged_allocator(), page_size(at_least=2)),)


@dataclass(frozen=True)
class Paging:
    page_size: int
    pages: int
    rest: int

    @property
    def size(self) -> int:
        return self.pages * self.page_size + self.rest


def paged_sizes(subject: Subject) -> list[int]:
    return [size for size in subject.declares.page_sizes if size > 1]


def pagings(subject: Subject, rng: random.Random) -> Iterator[Paging]:
    """Every page size, with whole pages and with slots left over."""
    for size in paged_sizes(subject):
        yield Paging(size, 1, 0)
        yield Paging(size, 5, rng.randrange(1, size))


def build(subject: Subject, case: Paging) -> Any:
    return WatchedAllocator(subject.allocator(case.size, case.page_size))


@check(
    level=Level.MEMORY,
    requires=PAGED,
    cases=pagings,
    founds="paged allocator",
    fix="lend pages 1 to size // page_size, each once: page 0 is for padding, and slots that fill no page are not lent",
)
def allocator_lends_every_page_once(subject: Subject, case: Paging) -> None:
    """All pages can be lent, none twice and never page 0; then the answer is None; freed, all can be lent again."""
    allocator, model = build(subject, case), AllocatorModel(case.pages, case.page_size)
    for again, since in (
        ("", "making it"),
        (" after all was freed", "freeing all"),
        (" after clear()", "clear()"),
    ):
        expect_adds_up(allocator, model, since)
        lent: list[int] = []
        for request in range(case.pages):
            got = allocator.alloc(case.page_size)
            expect(
                got is not None, f"page {request + 1} of {case.pages} cannot be had{again}: alloc() is None"
            )
            model.grew(request, got.tolist())
            lent += got.tolist()
            expect_adds_up(allocator, model, f"lending {request + 1} pages{again}")
        got = allocator.alloc(case.page_size)
        expect(got is None, f"with every page lent, alloc() still answers {shown(got)}{again}")
        if not again:
            allocator.free(torch.tensor(lent, device=subject.device))
        else:
            allocator.clear()
        for request in range(case.pages):
            model.finished(request)


@dataclass(frozen=True)
class Extend:
    page_size: int
    prefix: int
    new: int


def extends(subject: Subject, rng: random.Random) -> Iterator[Extend]:
    """Every place a prefix can end in a page, and every place that new tokens can, for the smallest page size, if it is
    small; for others the places around the edges of pages."""
    sizes = paged_sizes(subject)
    for size in sizes:
        whole = size == sizes[0] <= _WHOLE
        places = range(2 * size + 2) if whole else (0, 1, size - 1, size, size + 1, 2 * size, 2 * size + 1)
        for prefix in places:
            for new in places:
                if prefix + new:
                    yield Extend(size, prefix, new)


@check(
    level=Level.MEMORY,
    requires=PAGED,
    cases=extends,
    founds="paged allocator",
    seconds=240,
    fix="a request's tokens fill the tail of its last page (last_loc + 1 on) before they start on a new page, from its"
    " first slot on: it takes ceil(seq_len / page_size) - ceil(prefix_len / page_size) new pages",
)
def extend_fills_the_last_page_first(subject: Subject, case: Extend) -> None:
    """A prefix of any length is extended by any number of tokens: each token lies at its place of its page."""
    allocator, model = (
        WatchedAllocator(subject.allocator(6 * case.page_size, case.page_size)),
        AllocatorModel(6, case.page_size),
    )
    for before, after in ((0, case.prefix), (case.prefix, case.prefix + case.new)):
        if after == before:
            continue
        got = alloc_extend(subject, allocator, [before], [after], [(model.requests.get(1) or [-1])[-1]])
        what = f"alloc_extend() from {before} to {after} tokens"
        expect(got is not None, f"{what} is None with {model.available()} free slots")
        expect(got.dtype in SLOT_DTYPES, f"{what} answers {got.dtype}, and slots are int64, or int32")
        expect(got.numel() == after - before, f"{what} answers {got.numel()} slots")
        model.grew(1, got.tolist())
        expect_adds_up(allocator, model, what)


@dataclass(frozen=True)
class Alike:
    page_size: int
    new: int


def alike(subject: Subject, rng: random.Random) -> Iterator[Alike]:
    for size in paged_sizes(subject):
        for new in (1, size, size + 1):
            yield Alike(size, new)


@check(
    level=Level.MEMORY,
    requires=PAGED,
    cases=alike,
    founds=HISTORIES,
    fix="take the pages of each request's new tokens anew, also where another of the batch begins at the same slot with"
    " the same lengths",
)
def requests_with_one_prefix_are_apart(subject: Subject, case: Alike) -> None:
    """Three requests of a batch that share a cached prefix of whole pages, and are of one length, as a prompt that is
    sent several times, get slots of their own for their new tokens; so they do when each decodes a token."""
    size, n = case.page_size, 3
    allocator = WatchedAllocator(subject.allocator(20 * size, size))
    prefix = alloc_extend(subject, allocator, [0], [size], [-1])
    expect(prefix is not None, "the first page cannot be had")
    length, last = size + case.new, [int(prefix[-1])] * n
    got = alloc_extend(subject, allocator, [size] * n, [length] * n, last)
    expect(got is not None and got.numel() == n * case.new, f"alloc_extend() answers {shown(got)}")
    each = got.cpu().long().split(case.new)
    more = alloc_decode(subject, allocator, [length + 1] * n, [int(one[-1]) for one in each])
    expect(more is not None and more.numel() == n, f"alloc_decode() answers {shown(more)}")
    own = [set((torch.cat((one, more[[at]].cpu().long())) // size).tolist()) for at, one in enumerate(each)]
    expect(
        len(set().union(*own)) == sum(map(len, own)),
        f"three requests behind one prefix of {size} tokens get the pages {[sorted(one) for one in own]}",
    )
    available, wanted = allocator.available_size(), (19 - sum(map(len, own))) * size
    expect(available == wanted, f"available_size() is {available} then, and {wanted} slots are free")


@check(
    level=Level.MEMORY,
    requires=PAGED,
    cases=pagings,
    founds=HISTORIES,
    fix="count the new pages of the whole batch before anything is taken, and answer None when they are not free",
)
def exhaustion_changes_nothing(subject: Subject, case: Paging) -> None:
    """Asked for more than is free, alloc, alloc_extend and alloc_decode answer None, and nothing has changed: what is
    free is still free, and still fits."""
    size = case.page_size
    allocator, model = build(subject, case), AllocatorModel(case.pages, size)
    slots = alloc_extend(subject, allocator, [0], [size], [-1])
    expect(slots is not None, "the first page cannot be had")
    model.grew(1, slots.tolist())
    last = slots.tolist()[-1]
    free = case.pages - 1
    calls = {
        f"alloc({(free + 1) * size})": partial(allocator.alloc, (free + 1) * size),
        f"alloc_extend() of {free + 1} pages in two requests": partial(
            alloc_extend, subject, allocator, [0, size], [free * size + 1, size + 1], [-1, last]
        ),
    }
    if free == 0:
        calls["alloc_decode() at the end of a full page"] = partial(
            alloc_decode, subject, allocator, [size + 1], [last]
        )
    for name, call in calls.items():
        got = call()
        expect(got is None, f"{name} answers {shown(got)}, with {free} pages free")
        expect_adds_up(allocator, model, f"{name}, which does not fit")
    if free:
        got = alloc_extend(subject, allocator, [0], [free * size], [-1])
        expect(got is not None, f"after calls that did not fit, the {free} free pages cannot be had")
        model.grew(2, got.tolist())


@dataclass(frozen=True)
class Search:
    page_size: int


def searches(subject: Subject, rng: random.Random) -> Iterator[Search]:
    for size in paged_sizes(subject)[:3]:
        yield Search(size)


@check(
    level=Level.MEMORY,
    requires=PAGED,
    cases=searches,
    fix="make each call leave exactly the pages free that nobody holds",
    seconds=120,
)
def random_histories_add_up(subject: Subject, case: Search) -> None:
    """Thousands of calls in random order, as a scheduler makes them: every answer is legal, available_size() adds up
    after each, and backup and restore bring back the state as it was."""
    _raise(search_with_walks(_maker(subject), case.page_size, subject.seed), case)


@check(
    level=Level.MEMORY,
    requires=PAGED,
    cases=searches,
    fix="make each call leave exactly the pages free that nobody holds",
    seconds=120,
)
def state_machine_adds_up(subject: Subject, case: Search) -> None:
    """The same for the histories of a hypothesis state machine, which repeats and leaves out kinds of calls."""
    _raise(search_with_hypothesis(_maker(subject), case.page_size, subject.seed), case)


def _maker(subject: Subject) -> Any:
    subject.stands_on(HISTORIES)

    def make(size: int, page_size: int, need_sort: bool) -> Any:
        return subject.allocator(size, page_size, need_sort=need_sort)

    return make


def _raise(failure: AllocatorFailure | None, case: Search) -> None:
    if failure is not None:
        raise CheckFailed(
            failure.what, fix=failure.fix, case={"page_size": case.page_size, "calls": failure.calls}
        )


def alloc_extend(
    subject: Subject,
    allocator: Any,
    before: list[int],
    after: list[int],
    last: list[int],
    **hint: int,
) -> Any:
    """`hint`: num_new_pages, where the caller counts them itself."""
    prefix, seq, loc = torch.tensor(before), torch.tensor(after), torch.tensor(last)
    device = subject.device
    total = sum(after) - sum(before)
    return allocator.alloc_extend(
        prefix.to(device), prefix, seq.to(device), seq, loc.to(device), total, **hint
    )


def alloc_decode(subject: Subject, allocator: Any, after: list[int], last: list[int]) -> Any:
    seq = torch.tensor(after)
    return allocator.alloc_decode(seq.to(subject.device), seq, torch.tensor(last, device=subject.device))


def expect_adds_up(allocator: Any, model: AllocatorModel, after: str) -> None:
    available, wanted = allocator.available_size(), model.available()
    expect(available == wanted, f"after {after} available_size() is {available}; {wanted} slots are free")


def shown(slots: Any) -> str:
    return str(slots.tolist()[:8]) if isinstance(slots, torch.Tensor) else repr(slots)
