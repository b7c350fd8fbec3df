"""Level 3: the paged allocator's time beside a few operations of torch, and how it grows. No limit is in seconds."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from sglang_platform.conformance.check import check, expect, mended_by
from sglang_platform.conformance.checks.allocators import PAGED, alloc_decode, alloc_extend, paged_sizes
from sglang_platform.conformance.fixtures.timing import (
    Work,
    expect_growth,
    expect_like_torch,
    expect_ratio,
)
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.subject import Subject

_PAGES = (1024, 4096, 16384, 65536)
_FEWER = (256, 8192)
_BATCHES = (64, 256, 1024, 4096)
_FEW = 8
_FREE = (256, 16384)


_timed = partial(check, level=Level.MEMORY, requires=PAGED, seconds=500)


@_timed(
    fix="work on all pages and requests of a call at once, on the device or in compiled code, and touch only the pages"
    " that are taken: no search through the free pages for each page, no copy of them for each",
)
def allocator_time_grows_with_the_pages(subject: Subject) -> None:
    """Lending 65,536 pages and taking them back takes about 64 times as long as 1,024 pages, not thousands of times;
    so does taking back as many pages of which one slot each is given, in no order, also beside as many that are free,
    as many calls of `free()` in a free group as there are pages of a fourth of that, and `alloc_extend()` and
    `alloc_decode()` of 4,096 requests beside 64; of eight as long beside 16,384 free pages as beside 256."""
    page = paged_sizes(subject)[0]
    generator = subject.torch_rng()

    def lent_whole(pages: int) -> Work:
        allocator = _all_pages(subject, pages, page)
        return Work(lambda: allocator.free(_lent(allocator, pages, page)))

    def scattered(pages: int, beside: int = 0) -> Work:
        allocator = _all_pages(subject, pages + beside, page)
        order = torch.randperm(pages, generator=generator).to(subject.device)
        held: list[torch.Tensor] = []
        return Work(
            lambda: allocator.free(held.pop()),
            lambda: held.append(_lent(allocator, pages, page)[::page][order].contiguous()),
        )

    def grouped(pages: int) -> Work:
        allocator = _all_pages(subject, pages, page)
        held: list[tuple[torch.Tensor, ...]] = []

        def free_each() -> None:
            allocator.free_group_begin()
            for slots in held.pop():
                allocator.free(slots)
            allocator.free_group_end()

        return Work(free_each, lambda: held.append(_lent(allocator, pages, page).split(page)))

    def extending(requests: int) -> Work:
        allocator = _all_pages(subject, 3 * requests, page)
        before, after, last = [0] * requests, [page + 1] * requests, [-1] * requests
        return Work(lambda: alloc_extend(subject, allocator, before, after, last), allocator.clear)

    def decoding(requests: int, free: int = 0) -> Work:
        allocator = _all_pages(subject, 3 * requests + free, page)
        slots: list[list[int]] = []

        def hold() -> None:
            allocator.clear()
            got = alloc_extend(subject, allocator, [0] * requests, [page] * requests, [-1] * requests)
            slots[:] = [got.reshape(requests, page)[:, -1].tolist()]

        return Work(lambda: alloc_decode(subject, allocator, [page + 1] * requests, slots[0]), hold)

    for sizes, made, what, of in (
        (_PAGES, lent_whole, "alloc() of all pages and free() of them", "pages"),
        (_PAGES, scattered, "free() of one slot of each page", "pages"),
        (
            _FEWER,
            lambda n: scattered(n, n),
            "free() of half of the pages, while the others are free",
            "pages",
        ),
        (_PAGES[:3], grouped, "freeing pages one by one in a free group", "pages"),
        (_BATCHES, extending, "alloc_extend() onto new pages", "requests"),
        (_BATCHES, decoding, "alloc_decode() onto new pages", "requests"),
    ):
        expect_growth(subject, sizes, made, what=f"{what}, pages of {page},", of=of)
    few, many = _FREE
    expect_ratio(
        subject,
        decoding(_FEW, many),
        decoding(_FEW, few),
        what=f"alloc_decode() of {_FEW} requests beside {many} free pages",
        beside=f"beside {few}",
        fix="take the pages that are needed from one end of the free ones, and look at no others",
    )


@_timed(
    fix="use tensor operations or compiled code over all slots of a call: the scheduler waits for each of these calls",
)
def allocator_is_not_slower_than_torch(subject: Subject) -> None:
    """Lending pages and taking them back, many at once and one by one, is not 50 times slower than plain operations of
    torch that do the same, and `clear()` not eight times slower than lending all and taking them back; nor is
    `available_size()`, which the scheduler asks several times in each step, than a few passes over as many numbers."""
    page, pages = paged_sizes(subject)[0], 16384
    device = subject.device
    allocator = _all_pages(subject, pages, page)
    inside, free = torch.arange(page, device=device), torch.arange(1, pages + 1, device=device)

    whole = Work(lambda: allocator.free(_lent(allocator, pages, page)))

    def the_same_in_torch() -> torch.Tensor:
        slots = (free[:, None] * page + inside).reshape(-1)
        return torch.cat((torch.unique(slots // page), free[:0]))

    expect_like_torch(subject, whole, the_same_in_torch, f"lending and freeing {pages} pages of {page}")
    expect_ratio(
        subject,
        Work(allocator.clear),
        whole,
        what=f"clear() of {pages} pages",
        beside="lending and freeing all of them",
        fix="make the list of free pages anew, and wait for nothing",
    )
    held = list(_lent(allocator, 64, page).split(page))

    def one_by_one() -> None:
        for slots in held:
            allocator.free(slots)

    def one_by_one_in_torch() -> None:
        for slots in held:
            torch.cat((torch.unique(slots // page), free))

    def lend_again() -> None:
        allocator.clear()
        held[:] = _lent(allocator, 64, page).split(page)

    what = f"freeing 64 pages of {page} one by one, with {pages} pages in all"
    expect_like_torch(subject, Work(one_by_one, lend_again), one_by_one_in_torch, what)
    pages = _PAGES[-1]
    allocator = _all_pages(subject, pages, page)
    allocator.free(_lent(allocator, pages // 2, page)[:page])  # some are lent, and some were freed
    counted = partial(torch.count_nonzero, torch.arange(pages, device=device))
    with mended_by(
        "keep the number of free pages, or count them in one operation over a tensor: no list is made of them"
    ):
        what = f"available_size() over {pages} pages"
        expect_like_torch(subject, Work(allocator.available_size), counted, what, most=32.0)


def _all_pages(subject: Subject, pages: int, page: int) -> Any:
    return subject.allocator(pages * page, page)


def _lent(allocator: Any, pages: int, page: int) -> torch.Tensor:
    slots = allocator.alloc(pages * page)
    expect(
        slots is not None,
        f"{pages} pages of {page} cannot be had, though all are free",
        fix="give back the page of every slot that free() is given, and lend all of them",
    )
    return slots  # type: ignore[no-any-return]
