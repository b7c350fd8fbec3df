"""Level 3: what a free group takes, a pool that gets another size, and large batches that do not fit."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch

from sglang_platform.conformance.check import NotApplicable, check, expect
from sglang_platform.conformance.checks.allocators import (
    HISTORIES,
    PAGED,
    alloc_decode,
    alloc_extend,
    paged_sizes,
)
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.oracles.allocator_watch import WatchedAllocator
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_PAGES = 90
_LARGE = (33, 80)
"""Batches of more requests than a kernel may take at once."""


@dataclass(frozen=True)
class Order:
    page_size: int
    frees: tuple[str, ...]
    times: int = 1


def orders(subject: Subject, rng: random.Random) -> Iterator[Order]:
    """What one group is given, each kind first, last and alone."""
    sizes = paged_sizes(subject)
    for frees in itertools.permutations(("slots", "numbers", "segment")):
        yield Order(sizes[0], frees)
    yield Order(sizes[-1], ("numbers", "slots", "numbers"))
    yield Order(sizes[-1], ("halves", "slots", "halves"))
    yield Order(sizes[0], ("slots",), 75)
    yield Order(sizes[0], ("numbers",), 75)


@check(
    level=Level.MEMORY,
    requires=PAGED,
    cases=orders,
    founds=HISTORIES,
    fix="keep every free of an open group, of slots, of page numbers and of segments, and do all of them at its end",
)
def groups_take_every_kind_of_free(subject: Subject, case: Order) -> None:
    """Slots, page numbers and segments that are freed in one group, in any order and however many, of a page at once
    or in two calls, are free at its end, none of them before, and can be lent again, each once; a group that a flush
    has dropped ends as one of nothing."""
    size, frees = case.page_size, case.frees * case.times
    allocator = WatchedAllocator(subject.allocator(_PAGES * size, size))
    every = alloc_extend(subject, allocator, [0] * _PAGES, [size] * _PAGES, [-1] * _PAGES)
    expect(every is not None, f"{_PAGES} pages cannot be had")
    held = every.split(size)
    allocator.free_group_begin()
    for slots, kind in zip(held, frees, strict=False):
        _free(allocator, slots, kind, size)
        expect(allocator.available_size() == 0, f"a page is free before the end of the group, after {kind}")
    allocator.free_group_end()
    freed, what = len(frees), f"a group of {' and '.join(dict.fromkeys(case.frees))}"
    available = allocator.available_size()
    expect(
        available == freed * size,
        f"after {what}, {freed} pages, available_size() is {available}, not {freed * size}",
    )
    again = allocator.alloc(freed * size)
    wanted = sorted(torch.cat(held[:freed]).tolist())
    expect(
        again is not None and sorted(again.tolist()) == wanted,
        f"after {what}, alloc() of its {freed} pages answers other slots than were freed",
    )
    allocator.free_group_begin()
    for slots, kind in zip(held, frees, strict=False):
        _free(allocator, slots, kind, size)
    allocator.clear()
    lent = allocator.alloc(size)
    allocator.free_group_end()
    available, fix = (
        allocator.available_size(),
        "drop in clear() what an open group holds back: all pages are free then",
    )
    expect(
        available == (_PAGES - 1) * size,
        f"after clear() within {what}, a page that is lent and the group's end, available_size() is {available}, not"
        f" {(_PAGES - 1) * size}",
        fix=fix,
    )
    rest = allocator.alloc(available)
    slots = torch.cat((lent, rest)).tolist() if lent is not None and rest is not None else []
    expect(
        len(set(slots)) == _PAGES * size,
        f"after clear() within {what}, {_PAGES} pages have {len(set(slots))} slots, not {_PAGES * size}",
        fix=fix,
    )


def _free(allocator: Any, slots: torch.Tensor, kind: str, size: int) -> None:
    if kind == "halves":
        for half in slots.split(-(-size // 2)):
            allocator.free(half)
    elif kind == "numbers":
        allocator.free_page_ids(slots[::size] // size)
    elif kind == "segment" and hasattr(allocator, "free_segment"):  # hosts before 0.5.20 have none
        allocator.free_segment(slots, start_pos=0)
    else:
        allocator.free(slots)


@dataclass(frozen=True)
class Sizes:
    page_size: int
    pages: int
    resized: int
    """Slots that it has afterwards."""


def resizes(subject: Subject, rng: random.Random) -> Iterator[Sizes]:
    for size in paged_sizes(subject):
        yield Sizes(size, 6, 40 * size)
        yield Sizes(size, 40, 3 * size + 1)


@check(
    level=Level.MEMORY,
    requires=PAGED,
    cases=resizes,
    fix="resize() sets size and num_pages and calls clear(), which reads them: keep no count of pages beside them",
)
def resized_allocators_lend_their_new_size(subject: Subject, case: Sizes) -> None:
    """After `resize()`, which the host calls when it gives a pool other memory, all pages of the new size are free, and
    each is lent once."""
    size, pages = case.page_size, case.resized // case.page_size
    allocator: Any = subject.allocator(case.pages * size, size)
    if not hasattr(allocator, "resize"):
        raise NotApplicable("this host's allocators have no resize()")
    for resized, before in ((case.resized, case.pages), (case.pages * size, pages)):
        expect(allocator.alloc(size) is not None, f"no page of {before} can be had")
        allocator.resize(SimpleNamespace(max_total_num_tokens=resized))
        now = resized // size
        available = allocator.available_size()
        expect(
            available == now * size,
            f"resized from {before} pages to {now}, available_size() is {available}, not {now * size}",
        )
        got = allocator.alloc(now * size)
        wanted = list(range(size, (now + 1) * size))
        expect(
            got is not None and sorted(got.tolist()) == wanted,
            f"resized from {before} pages to {now}, alloc() of all answers other slots than those of pages 1 to {now}",
        )
        expect(allocator.alloc(size) is None, f"resized to {now} pages, it lends more")
        allocator.free(got)


@dataclass(frozen=True)
class Crowd:
    page_size: int
    requests: int


def crowds(subject: Subject, rng: random.Random) -> Iterator[Crowd]:
    sizes = paged_sizes(subject)
    for requests in _LARGE:
        yield Crowd(sizes[0], requests)
    yield Crowd(sizes[-1], _LARGE[0])


@check(
    level=Level.MEMORY,
    requires=PAGED,
    cases=crowds,
    fix="count the new pages of the whole batch, however large it is, before any is taken",
)
def large_batches_that_do_not_fit_change_nothing(subject: Subject, case: Crowd) -> None:
    """A batch of tens of requests of which the last few find no page is refused as a whole: what was free is free, and
    a batch that fits exactly is served, and leaves nothing, also where the caller counted its new pages."""
    size, n = case.page_size, case.requests
    allocator = WatchedAllocator(subject.allocator((2 * n - 1) * size, size))
    first = alloc_extend(subject, allocator, [0] * n, [size] * n, [-1] * n)
    expect(first is not None, f"{n} requests of a page each cannot be had of {2 * n - 1} pages")
    last = first[size - 1 :: size].tolist()
    free = (n - 1) * size
    refused = {
        f"alloc_extend() of {n} requests by a token": lambda: alloc_extend(
            subject, allocator, [size] * n, [size + 1] * n, last
        ),
        f"alloc_extend() of {n} new requests": lambda: alloc_extend(
            subject, allocator, [0] * n, [1] * n, [-1] * n
        ),
        f"alloc_decode() of {n} requests at the end of their page": lambda: alloc_decode(
            subject, allocator, [size + 1] * n, last
        ),
        f"alloc() of {n} pages": lambda: allocator.alloc(n * size),
    }
    for what, call in refused.items():
        got = call()
        expect(got is None, f"{what} is answered, with {n - 1} pages free")
        available = allocator.available_size()
        expect(
            available == free,
            f"after {what}, which does not fit, available_size() is {available}, not {free}",
        )
    told = alloc_extend(subject, allocator, [0] * n, [1] * n, [-1] * n, num_new_pages=n)
    expect(
        told is None, f"alloc_extend() of {n} new pages, as its caller counted, is answered with {n - 1} free"
    )
    told = alloc_extend(subject, allocator, [0] * (n - 1), [1] * (n - 1), [-1] * (n - 1), num_new_pages=n - 1)
    expect(
        told is not None,
        f"alloc_extend() of {n - 1} new pages, as its caller counted, is not answered, and so many are free",
    )
    allocator.free(told)
    got = alloc_decode(subject, allocator, [size + 1] * (n - 1), last[: n - 1])
    expect(
        got is not None, f"after batches that did not fit, {n - 1} requests do not get the {n - 1} free pages"
    )
    expect(
        len(set((got // size).tolist()) | set((first // size).tolist())) == 2 * n - 1,
        f"{n - 1} requests that go on get pages that others have",
    )
    available = allocator.available_size()
    expect(available == 0, f"after a batch that took all pages, available_size() is {available}")
