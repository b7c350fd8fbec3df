"""Level 3: what the paged allocator does with what is freed: once, twice, in groups, by number and in order."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch

from sglang_platform.conformance.check import CheckFailed, check, expect
from sglang_platform.conformance.checks.allocators import (
    HISTORIES,
    PAGED,
    Paging,
    build,
    expect_adds_up,
    paged_sizes,
    pagings,
    shown,
)
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.oracles.allocator_history import SLOT_DTYPES
from sglang_platform.conformance.oracles.allocator_model import AllocatorModel
from sglang_platform.conformance.oracles.allocator_watch import WatchedAllocator
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_MANY = 4096
"""Pages, of which a quarter is freed in a call."""


@check(
    level=Level.MEMORY,
    requires=PAGED,
    cases=pagings,
    founds=HISTORIES,
    fix="in debug mode (SGLANG_PLATFORM_DEBUG_MEMORY=1 or SGLANG_DEBUG_MEMORY_POOL=1) raise when a page is freed that"
    " is free already; core's allocator does, where its free() is used",
)
def double_free_is_refused(subject: Subject, case: Paging) -> None:
    """With the debug variable set, freeing a page a second time is an error, and the page is not lent twice."""
    names = ("SGLANG_PLATFORM_DEBUG_MEMORY", "SGLANG_DEBUG_MEMORY_POOL")
    with mock.patch.dict(os.environ, dict.fromkeys(names, "1")):
        for how, twice in _TWICE.items():
            allocator = build(subject, case)
            slots = allocator.alloc(case.page_size)
            try:
                twice(allocator, slots, case.page_size)
            except CheckFailed:  # the allocator changed what it was given
                raise
            except Exception:  # noqa: BLE001 - the host asserts, core raises an error of its own
                continue
            page, available = slots.tolist()[0] // case.page_size, allocator.available_size()
            once = available == case.size - case.rest
            expect(
                how in _MAY_COUNT_ONCE and once,
                f"page {page} was freed twice{how} without an error; available_size() is {available} of "
                f"{case.size - case.rest}",
            )


def _after_too_much(allocator: Any, slots: torch.Tensor, page_size: int) -> None:
    allocator.free(slots)
    allocator.alloc(allocator.available_size() + page_size)
    allocator.free(slots)


def _one_after_the_other(allocator: Any, slots: torch.Tensor, page_size: int) -> None:
    allocator.free(slots)
    allocator.free(slots)


def _in_one_group(allocator: Any, slots: torch.Tensor, page_size: int) -> None:
    allocator.free_group_begin()
    allocator.free(slots)
    allocator.free(slots)
    allocator.free_group_end()


def _by_number_in_one_group(allocator: Any, slots: torch.Tensor, page_size: int) -> None:
    allocator.free_group_begin()
    allocator.free_page_ids(slots[:1] // page_size)
    allocator.free_page_ids(slots[:1] // page_size)
    allocator.free_group_end()


_TWICE: dict[str, Callable[[Any, torch.Tensor, int], None]] = {
    "": _one_after_the_other,
    ", with a call between that did not fit,": _after_too_much,
    " in one group": _in_one_group,
    " by its number in one group": _by_number_in_one_group,
}
_MAY_COUNT_ONCE = frozenset({" in one group", " by its number in one group"})
"""Where both reach the allocator in one call, and SGLang's own takes them for one page."""


@check(
    level=Level.MEMORY,
    requires=PAGED,
    cases=pagings,
    founds=HISTORIES,
    fix="hold frees back from free_group_begin() until free_group_end(): the scheduler still reads what it frees",
)
def free_group_holds_frees_back(subject: Subject, case: Paging) -> None:
    """Between the two calls nothing that is freed is lent again; afterwards all of it is free, each page once."""
    size = case.page_size
    allocator, model = build(subject, case), AllocatorModel(case.pages, size)
    slots = allocator.alloc(case.pages * size)
    expect(slots is not None, f"{case.pages} pages cannot be had at once")
    allocator.free_group_begin()
    given = slots.clone()
    allocator.free(given)
    given.fill_(0)  # the caller may reuse the tensor it gave
    expect(allocator.available_size() == 0, "available_size() counts slots that an open free group holds")
    got = allocator.alloc(size)
    expect(got is None, f"slots {shown(got)} were lent while an open free group held them")
    try:
        allocator.free_group_end()
    except Exception as error:
        raise CheckFailed(
            f"free_group_end() raised {type(error).__name__}: {error}",
            fix="keep a copy of what is freed in a group: the caller writes over its tensor meanwhile",
        ) from error
    expect_adds_up(allocator, model, "free_group_end()")
    allocator.free_group_begin()
    allocator.clear()
    slots = allocator.alloc(size)
    expect(slots is not None, "after clear() no page can be had")
    allocator.free(slots)
    expect_adds_up(allocator, model, "clear() in an open free group, and a page that was lent and freed")


@check(
    level=Level.MEMORY,
    requires=PAGED,
    cases=pagings,
    founds=HISTORIES,
    fix="free_page_ids(ids) gives pages back by their numbers, slot // page_size; a free group holds them back",
)
def page_ids_are_given_back(subject: Subject, case: Paging) -> None:
    """Pages freed by number, as SGLang's composite allocators do, are free at once, or at the end of a free group."""
    size = case.page_size
    allocator, model = build(subject, case), AllocatorModel(case.pages, size)
    for grouped, dtype in itertools.product((False, True), SLOT_DTYPES):
        slots = allocator.alloc(case.pages * size)
        expect(slots is not None, f"{case.pages} pages cannot be had at once")
        ids = (slots[::size] // size).to(dtype)
        if grouped:
            allocator.free_group_begin()
        allocator.free_page_ids(ids)
        if grouped:
            held = allocator.available_size()
            expect(held == 0, f"available_size() is {held} while an open free group holds all pages")
            allocator.free_group_end()
        expect_adds_up(allocator, model, f"free_page_ids() of {dtype}" + " in a free group" * grouped)


def sorted_pagings(subject: Subject, rng: random.Random) -> Iterator[Paging]:
    yield from pagings(subject, rng)
    yield Paging(paged_sizes(subject)[0], _MANY, 0)


@check(
    level=Level.MEMORY,
    requires=PAGED,
    cases=sorted_pagings,
    founds=HISTORIES,
    fix="with need_sort=True, sort what was freed before it is lent again: engines send each other runs of pages",
)
def freed_pages_are_lent_in_order(subject: Subject, case: Paging) -> None:
    """Made with need_sort, an allocator lends pages that were freed in any order, one by one or a thousand in a call,
    in ascending order."""
    size = case.page_size
    allocator = WatchedAllocator(subject.allocator(case.size, size, need_sort=True))
    slots = allocator.alloc(case.pages * size)
    expect(slots is not None, f"{case.pages} pages cannot be had at once")
    pieces, order = slots.split(size), list(range(case.pages))
    random.Random(subject.seed).shuffle(order)
    together = 1 if case.pages < _MANY else _MANY // 4
    for at in range(0, case.pages, together):
        freed = torch.cat([pieces[place] for place in order[at : at + together]])
        if at // together % 2:  # the request table holds 32 bits
            freed = freed.to(torch.int32)
        allocator.free(freed)
    lent = allocator.alloc(case.pages * size)
    expect(lent is not None, "after all was freed, not all can be had")
    pages = (lent[::size] // size).tolist()
    if pages != sorted(pages):
        at = next(at for at in range(1, len(pages)) if pages[at] < pages[at - 1])
        shown = pages[max(0, at - 4) : at + 4]
        raise CheckFailed(
            f"{together} pages at a time were freed in another order, and are lent as ... {shown}"
        )
