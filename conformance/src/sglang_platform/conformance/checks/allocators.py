"""Level 3: the paged allocator against a model that knows nothing but sets of pages."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest import mock

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

__all__ = ["PAGED", "alloc_decode", "alloc_extend", "paged_sizes"]

_WHOLE = 16
"""Pages of up to this many tokens are tried with a prefix and new tokens of every length."""

_MANY = 4096
"""Pages, of which a quarter is freed in a call."""

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


def _build(subject: Subject, case: Paging) -> Any:
    return WatchedAllocator(subject.parts.allocator(case.size, case.page_size))


@check(
    level=Level.MEMORY,
    requires=PAGED,
    cases=pagings,
    fix="lend pages 1 to size // page_size, each once: page 0 is for padding, and slots that fill no page are not lent",
)
def allocator_lends_every_page_once(subject: Subject, case: Paging) -> None:
    """All pages can be lent, none twice and never page 0; then the answer is None; freed, all can be lent again."""
    allocator, model = _build(subject, case), AllocatorModel(case.pages, case.page_size)
    for again, since in (
        ("", "making it"),
        (" after all was freed", "freeing all"),
        (" after clear()", "clear()"),
    ):
        _adds_up(allocator, model, since)
        lent: list[int] = []
        for request in range(case.pages):
            got = allocator.alloc(case.page_size)
            expect(
                got is not None, f"page {request + 1} of {case.pages} cannot be had{again}: alloc() is None"
            )
            model.grew(request, got.tolist())
            lent += got.tolist()
            _adds_up(allocator, model, f"lending {request + 1} pages{again}")
        got = allocator.alloc(case.page_size)
        expect(got is None, f"with every page lent, alloc() still answers {_shown(got)}{again}")
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
    seconds=240,
    fix="a request's tokens fill the tail of its last page (last_loc + 1 on) before they start on a new page, from its"
    " first slot on",
)
def extend_fills_the_last_page_first(subject: Subject, case: Extend) -> None:
    """A prefix of any length is extended by any number of tokens: each token lies at its place of its page."""
    allocator, model = (
        WatchedAllocator(subject.parts.allocator(6 * case.page_size, case.page_size)),
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
        _adds_up(allocator, model, what)


@check(
    level=Level.MEMORY,
    requires=PAGED,
    cases=pagings,
    fix="count the new pages of the whole batch before anything is taken, and answer None when they are not free",
)
def exhaustion_changes_nothing(subject: Subject, case: Paging) -> None:
    """Asked for more than is free, alloc, alloc_extend and alloc_decode answer None, and nothing has changed: what is
    free is still free, and still fits."""
    size = case.page_size
    allocator, model = _build(subject, case), AllocatorModel(case.pages, size)
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
        expect(got is None, f"{name} answers {_shown(got)}, with {free} pages free")
        _adds_up(allocator, model, f"{name}, which does not fit")
    if free:
        got = alloc_extend(subject, allocator, [0], [free * size], [-1])
        expect(got is not None, f"after calls that did not fit, the {free} free pages cannot be had")
        model.grew(2, got.tolist())


@check(
    level=Level.MEMORY,
    requires=PAGED,
    cases=pagings,
    fix="in debug mode (SGLANG_PLATFORM_DEBUG_MEMORY=1 or SGLANG_DEBUG_MEMORY_POOL=1) raise when a page is freed that"
    " is free already; core's allocator does, where its free() is used",
)
def double_free_is_refused(subject: Subject, case: Paging) -> None:
    """With the debug variable set, freeing a page a second time is an error, and the page is not lent twice."""
    names = ("SGLANG_PLATFORM_DEBUG_MEMORY", "SGLANG_DEBUG_MEMORY_POOL")
    with mock.patch.dict(os.environ, dict.fromkeys(names, "1")):
        for how, twice in _TWICE.items():
            allocator = _build(subject, case)
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
    fix="hold frees back from free_group_begin() until free_group_end(): the scheduler still reads what it frees",
)
def free_group_holds_frees_back(subject: Subject, case: Paging) -> None:
    """Between the two calls nothing that is freed is lent again; afterwards all of it is free, each page once."""
    size = case.page_size
    allocator, model = _build(subject, case), AllocatorModel(case.pages, size)
    slots = allocator.alloc(case.pages * size)
    expect(slots is not None, f"{case.pages} pages cannot be had at once")
    allocator.free_group_begin()
    given = slots.clone()
    allocator.free(given)
    given.fill_(0)  # the caller may reuse the tensor it gave
    expect(allocator.available_size() == 0, "available_size() counts slots that an open free group holds")
    got = allocator.alloc(size)
    expect(got is None, f"slots {_shown(got)} were lent while an open free group held them")
    try:
        allocator.free_group_end()
    except Exception as error:
        raise CheckFailed(
            f"free_group_end() raised {type(error).__name__}: {error}",
            fix="keep a copy of what is freed in a group: the caller writes over its tensor meanwhile",
        ) from error
    _adds_up(allocator, model, "free_group_end()")
    allocator.free_group_begin()
    allocator.clear()
    slots = allocator.alloc(size)
    expect(slots is not None, "after clear() no page can be had")
    allocator.free(slots)
    _adds_up(allocator, model, "clear() in an open free group, and a page that was lent and freed")


@check(
    level=Level.MEMORY,
    requires=PAGED,
    cases=pagings,
    fix="free_page_ids(ids) gives pages back by their numbers, slot // page_size; a free group holds them back",
)
def page_ids_are_given_back(subject: Subject, case: Paging) -> None:
    """Pages freed by number, as SGLang's composite allocators do, are free at once, or at the end of a free group."""
    size = case.page_size
    allocator, model = _build(subject, case), AllocatorModel(case.pages, size)
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
        _adds_up(allocator, model, f"free_page_ids() of {dtype}" + " in a free group" * grouped)


def sorted_pagings(subject: Subject, rng: random.Random) -> Iterator[Paging]:
    yield from pagings(subject, rng)
    yield Paging(paged_sizes(subject)[0], _MANY, 0)


@check(
    level=Level.MEMORY,
    requires=PAGED,
    cases=sorted_pagings,
    fix="with need_sort=True, sort what was freed before it is lent again: engines send each other runs of pages",
)
def freed_pages_are_lent_in_order(subject: Subject, case: Paging) -> None:
    """Made with need_sort, an allocator lends pages that were freed in any order, one by one or a thousand in a call,
    in ascending order."""
    size = case.page_size
    allocator = WatchedAllocator(subject.parts.allocator(case.size, size, need_sort=True))
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
    def make(size: int, page_size: int, need_sort: bool) -> Any:
        return subject.parts.allocator(size, page_size, need_sort=need_sort)

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


def _adds_up(allocator: Any, model: AllocatorModel, after: str) -> None:
    available, wanted = allocator.available_size(), model.available()
    expect(available == wanted, f"after {after} available_size() is {available}; {wanted} slots are free")


def _shown(slots: Any) -> str:
    return str(slots.tolist()[:8]) if isinstance(slots, torch.Tensor) else repr(slots)
