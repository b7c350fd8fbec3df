"""Level 3: the paged allocator at sizes that are served: many pages, wide batches, requests of thousands of tokens."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from sglang_platform.conformance.check import CheckFailed, check, expect
from sglang_platform.conformance.checks.allocators import PAGED, alloc_decode, alloc_extend, paged_sizes
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.oracles.allocator_watch import WatchedAllocator
from sglang_platform.conformance.requirement import all_of, page_size, paged_allocator
from sglang_platform.conformance.subject import Subject

_SLOTS = 150_000
"""More than 16 bits number, in slots at every page size and in pages at the smallest."""

_REQUESTS = 520
"""More than the 256, or 512, of one block."""

_HUGE = 2**24 + 2**20
_WIDE_PAGE = 16
"""So that the pages of so many slots are quickly lent."""

_MANY_PAGES = 2**16 + 2**12
"""More than 16 bits number."""

_LAST = 40
"""Of these as many are taken by requests."""


@dataclass(frozen=True)
class Served:
    page_size: int
    slots: int
    requests: int


def served_sizes(subject: Subject, rng: random.Random) -> Iterator[Served]:
    for size in paged_sizes(subject):
        yield Served(size, _SLOTS, _REQUESTS)


@check(
    level=Level.MEMORY,
    requires=PAGED,
    cases=served_sizes,
    seconds=120,
    fix="take for each request the pages that its new tokens start, ceil(seq_len / page_size) - ceil(prefix_len /"
    " page_size), number slots and pages in 64 bits, size working memory by the batch, and give every page of a batch"
    " back",
)
def allocator_at_served_sizes(subject: Subject, case: Served) -> None:
    """With 150,000 slots, 520 requests at once grow by tens of tokens, decode, and are freed, also where the caller
    counted their new pages, and one grows by tens of thousands: every token lies at its place of a page that no other
    request has, what is free adds up, and `size` is the slots without the padding."""
    size, source = case.page_size, random.Random(subject.seed)
    made = subject.allocator(case.slots, size)
    expect(
        made.size in (case.slots, case.slots // size * size),
        f"size is {made.size} of an allocator of {case.slots} slots: the host counts what is in use, and looks for"
        " leaks, by it",
        fix="leave `size` what the constructor was given: the padding page is beside it",
    )
    allocator = WatchedAllocator(made)
    held: list[torch.Tensor] = [torch.empty(0, dtype=torch.int64) for _ in range(case.requests)]
    budget = case.slots // case.requests
    for most, counted in (
        (budget // 3, False),
        (1, False),
        (budget // 4, False),
        (budget // 4, True),
        (1, False),
        (budget // 8, True),
    ):
        more = [source.randint(1, most) for _ in held]
        held = _grown(subject, allocator, held, more, size, counted=counted)
        who = ", whose new pages the caller had counted," if counted else ""
        _hold_up(allocator, held, case, f"{case.requests} requests{who} grew by up to {most} tokens")
    freed = held[::2]
    allocator.free(torch.cat(freed).to(subject.device))
    held = held[1::2]
    _hold_up(allocator, held, case, "every second request was freed in one call")
    large = [torch.empty(0, dtype=torch.int64)]
    for more in (2_000, 70_003, 9_000):
        large = _grown(subject, allocator, large, [more], size)
        _hold_up(allocator, [*held, *large], case, f"one request alone grew by {more} tokens")
    held = [*held, *large]
    _too_much(subject, allocator, held, case)


def _too_much(subject: Subject, allocator: Any, held: list[torch.Tensor], case: Served) -> None:
    """One page more than thousands that are free."""
    free = allocator.available_size()
    before, last = [len(held[0]), 0], [int(held[0][-1]), -1]
    room = -len(held[0]) % case.page_size
    asked = {
        f"alloc({free + case.page_size})": lambda: allocator.alloc(free + case.page_size),
        f"alloc_extend() of two requests by {free + 1} tokens": lambda: alloc_extend(
            subject, allocator, before, [before[0] + room, free + 1], last
        ),
    }
    for call, make in asked.items():
        got = make()
        expect(got is None, f"{call} answers {0 if got is None else got.numel()} slots, and {free} are free")
        _hold_up(allocator, held, case, f"{call}, which does not fit")


@dataclass(frozen=True)
class Huge:
    page_size: int
    slots: int


def huge(subject: Subject, rng: random.Random) -> Iterator[Huge]:
    sizes = [size for size in paged_sizes(subject) if size >= _WIDE_PAGE]
    if sizes:
        yield Huge(sizes[-1], _HUGE)


@check(
    level=Level.MEMORY,
    requires=[all_of(paged_allocator(), page_size(at_least=_WIDE_PAGE))],
    cases=huge,
    seconds=300,
    fix="keep slots in 64-bit integers all the way: 32-bit floats are exact to 2**24 only",
)
def slots_past_sixteen_million(subject: Subject, case: Huge) -> None:
    """In a pool of more than 2**24 slots, the tokens of requests at its end lie at their places."""
    size, pages = case.page_size, case.slots // case.page_size
    allocator = WatchedAllocator(subject.allocator(case.slots, size))
    held = [torch.empty(0, dtype=torch.int64) for _ in range(pages)]
    some = 1024
    for start in range(0, pages, some):
        held[start : start + some] = _grown(
            subject, allocator, held[start : start + some], [1] * min(some, pages - start), size
        )
    held.sort(key=lambda slots: int(slots[0]))
    held[-some:] = _grown(subject, allocator, held[-some:], [2] * some, size)
    _hold_up(allocator, held, Served(size, case.slots, pages), f"{pages} requests came, and the last grew")


@dataclass(frozen=True)
class ManyPages:
    page_size: int
    pages: int


def many_pages(subject: Subject, rng: random.Random) -> Iterator[ManyPages]:
    yield ManyPages(paged_sizes(subject)[0], _MANY_PAGES)


@check(
    level=Level.MEMORY,
    requires=PAGED,
    cases=many_pages,
    seconds=120,
    fix="number pages in more than 16 bits, and free all that a call names, however many those are and in whatever type"
    " their slots come",
)
def thousands_of_pages_come_back(subject: Subject, case: ManyPages) -> None:
    """More than 2**16 pages are lent, each once; thousands that are freed in one call come back, at once or in a free
    group, by their slots or by their numbers."""
    size = case.page_size
    allocator = WatchedAllocator(subject.allocator(case.pages * size, size))
    slots = allocator.alloc(case.pages * size)
    expect(slots is not None, f"{case.pages} pages cannot be had at once")
    places = slots.cpu().reshape(case.pages, size)
    numbers = places[:, 0] // size
    expect(
        bool((places == numbers[:, None] * size + torch.arange(size)).all())
        and torch.equal(numbers.sort().values, torch.arange(1, case.pages + 1)),
        f"alloc() of {case.pages} pages answers other slots than those of pages 1 to {case.pages}, each once",
    )
    parts = numbers[torch.randperm(case.pages, generator=subject.torch_rng())].split(case.pages // 6 + 1)
    freed = 0
    for at, part in enumerate(parts):
        by_number, grouped = at % 2 == 1, at // 2 % 2 == 1
        freed += len(part)
        if grouped:
            allocator.free_group_begin()
        if by_number:
            allocator.free_page_ids(part.to(subject.device))
        else:
            every = part[:, None] * size + torch.arange(size)
            allocator.free(every.flatten().to(subject.device))
        if grouped:
            allocator.free_group_end()
        available = allocator.available_size()
        expect(
            available == freed * size,
            f"{len(part)} pages were freed in one call{' by their numbers' * by_number}{' in a group' * grouped}:"
            f" available_size() is {available}, and {freed * size} slots are free",
        )
    kept = allocator.alloc((case.pages - _LAST) * size)
    last = alloc_extend(subject, allocator, [0] * _LAST, [size] * _LAST, [-1] * _LAST)
    expect(kept is not None and last is not None, f"the {case.pages} pages cannot be had again")
    again = torch.cat((kept, last)).cpu().sort().values
    expect(
        torch.equal(again, torch.arange(size, (case.pages + 1) * size)),
        f"of {case.pages} pages alloc() takes all but {_LAST}, alloc_extend() these, and they are not each slot once",
    )


def _grown(
    subject: Subject,
    allocator: Any,
    held: list[torch.Tensor],
    more: list[int],
    size: int,
    *,
    counted: bool = False,
) -> list[torch.Tensor]:
    """Every request grows by `more` of its tokens: by decode where each takes one, else by extend. `counted`: extend
    is told how many pages are new."""
    before = [len(slots) for slots in held]
    after = [n + new for n, new in zip(before, more, strict=True)]
    last = [int(slots[-1]) if len(slots) else -1 for slots in held]
    wanted = sum(-(-new // size) - -(-old // size) for old, new in zip(before, after, strict=True))
    if set(more) == {1} and all(before):
        got = alloc_decode(subject, allocator, after, last)
    else:
        hint = {"num_new_pages": wanted} if counted else {}
        got = alloc_extend(subject, allocator, before, after, last, **hint)
    expect(
        got is not None,
        f"{len(held)} requests are not lent the {wanted} pages that they need, and they are free",
        fix="count for each request the pages that its new tokens start, ceil(seq_len / page_size) - ceil(prefix_len /"
        " page_size), and answer None only where fewer are free",
    )
    expect(got.numel() == sum(more), f"{got.numel()} slots are lent for {sum(more)} tokens")
    return [torch.cat((old, new)) for old, new in zip(held, got.cpu().long().split(more), strict=True)]


def _hold_up(allocator: Any, held: list[torch.Tensor], case: Served, after: str) -> None:
    """Every token is at its place, no page is another's, and what is free adds up."""
    size, pages = case.page_size, case.slots // case.page_size
    lengths = torch.tensor([len(slots) for slots in held])
    slots = torch.cat(held)
    starts = lengths.cumsum(0) - lengths
    places = torch.arange(len(slots)) - starts.repeat_interleave(lengths)
    heads = torch.nonzero(places % size == 0).flatten()
    page_of_token = heads.repeat_interleave(torch.diff(heads, append=torch.tensor([len(slots)])))
    wrong = torch.nonzero(slots != slots[page_of_token] + places % size).flatten().tolist()
    if wrong:
        request = int(torch.searchsorted(starts, wrong[0], right=True)) - 1
        raise CheckFailed(
            f"after {after}, token {int(places[wrong[0]])} of request {request} does not lie at its place of the "
            "request's page"
        )
    used = slots[heads]
    numbers = used // size
    expect(bool((used % size == 0).all()), f"after {after}, a page is not entered at its first slot")
    expect(int(numbers.min()) >= 1, f"after {after}, page 0 is lent, the padding page")
    expect(
        int(numbers.max()) <= pages,
        f"after {after}, page {int(numbers.max())} is lent, and there are {pages}",
    )
    expect(len(numbers.unique()) == len(numbers), f"after {after}, two requests hold one page")
    free, wanted = allocator.available_size(), (pages - len(numbers)) * size
    expect(free == wanted, f"after {after}, available_size() is {free}, and {wanted} slots are free")
