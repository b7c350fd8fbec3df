"""Who owns which slot, page by page. The whole truth about a paged allocator, without a free list.

A slot s lies in page s // page_size. Page 0 is the padding page and is nobody's. A request owns slots in the order of
its tokens; its tokens fill a page from its first slot to its last before another page is taken. A page belongs to one
request, unless requests share it as the whole pages of one prefix, and is free exactly when no request owns it and no
open free group holds it. All is in arrays: a pool of millions of slots is judged like one of seven pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sglang_platform.conformance.check import CheckFailed

__all__ = ["AllocatorFault", "AllocatorModel", "Slots"]

Slots = npt.NDArray[np.int64]

_NO_SLOTS: Slots = np.zeros(0, np.int64)


class AllocatorFault(CheckFailed):
    """What the allocator did wrong: `what` happened, and the `fix`."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what, fix=fix)


class AllocatorModel:
    """`requests` maps a request to its slots, in the order of its tokens; `users` counts the requests of each page."""

    def __init__(self, pages: int, page_size: int) -> None:
        self.page_size = page_size
        self.clear(pages)

    def clear(self, pages: int) -> None:
        """All of `pages` pages are free, and no group is open."""
        self.pages = pages
        self.requests: dict[int, Slots] = {}
        self.users = np.zeros(pages + 1, np.int64)
        self.fresh = np.ones(pages + 1, bool)
        """Pages that were never lent, which may be so in any order."""
        self.held_by_group: Slots | None = None
        """Pages that wait for the end of the open group."""

    # Questions

    def free_pages(self) -> Slots:
        """Numbers of the pages that can be lent, ascending."""
        free = self.users == 0
        free[0] = False
        if self.held_by_group is not None:
            free[self.held_by_group] = False
        return np.flatnonzero(free)

    def available(self) -> int:
        """Slots that can be asked for."""
        return len(self.free_pages()) * self.page_size

    def pages_for(self, before: int, after: int) -> int:
        """New pages that a request needs to grow from `before` tokens to `after`."""
        return -(-after // self.page_size) - -(-before // self.page_size)

    def slots(self, request: int) -> Slots:
        """None of a request that has not come yet."""
        return self.requests.get(request, _NO_SLOTS)

    def tokens(self, request: int) -> int:
        return len(self.slots(request))

    def shared(self, request: int) -> int:
        """Tokens of the prefix that other requests have as well."""
        pages = self._pages(self.requests[request])
        return int(np.count_nonzero(self.users[pages] > 1)) * self.page_size

    def saved(self) -> Any:
        """The state for `restore`. Arrays of slots are never written to."""
        return dict(self.requests), self.users.copy(), self.fresh.copy()

    def restore(self, saved: Any) -> None:
        self.requests, self.users, self.fresh = dict(saved[0]), saved[1].copy(), saved[2].copy()

    # What was answered

    def grew(self, request: int, new: Sequence[int] | Slots) -> None:
        """`new` was given to `request` for its next tokens. Raises AllocatorFault where that may not be."""
        held = self.slots(request)
        slots = np.concatenate((held, np.asarray(new, np.int64)))
        self._expect_legal(request, slots, len(held))
        if len(slots):
            self.requests[request] = slots
        pages = self._pages(slots)[len(self._pages(held)) :]
        self.users[pages] += 1
        self.fresh[pages] = False

    def _expect_legal(self, request: int, slots: Slots, first: int) -> None:
        """Of the tokens from `first` on, the first whose slot is wrong is told, by the first rule that it breaks."""
        size, new = self.page_size, slots[first:]
        places = np.arange(first, len(slots))
        pages, offsets = np.divmod(new, size)
        heads = self._pages(slots)
        own = heads[: -(-first // size)]
        known = np.where((pages > 0) & (pages <= self.pages), pages, 0)
        taken = self.users[known] > np.isin(known, own)
        if self.held_by_group is not None:
            taken |= np.isin(known, self.held_by_group)
        again = np.ones(len(heads), bool)
        again[np.unique(heads, return_index=True)[1]] = False
        begins = places % size == 0
        last = heads[places // size]
        rules = (
            (pages == 0, "which lies in page 0, the padding page", "lend pages 1 to size // page_size, each once:"
             " page 0 is for padding, and padded tokens of a graph batch write to slot 0"),
            (known == 0, "but the last one is {end}", "lend pages 1 to size // page_size = {pages} only, each once:"
             " slots that fill no page are not lent"),
            (taken, "but page {page} is in use by {owner}", "lend a page to one request until it is freed, each once,"
             " and take the pages of each request's new tokens anew, also where another of the batch begins at the"
             " same slot with the same lengths"),
            (offsets != places % size, "place {offset} of page {page}, and belongs to place {place}", "with page size"
             " {size} token n of a request lies at place n % {size}: fill the tail of its last page (last_loc + 1 on),"
             " then a new page from its first slot on"),
            (~begins & (pages != last), "but its last page is {last}", "the tail of the last page (last_loc + 1 on) is"
             " filled before a new page is taken"),
            (begins & again[places // size], "and begins page {page}, which the request has already", "a full page is"
             " followed by a new one"),
        )  # fmt: skip
        wrong = np.logical_or.reduce([mask for mask, _, _ in rules])
        if not wrong.any():
            return
        at = int(wrong.argmax())
        what, fix = next((what, fix) for mask, what, fix in rules if mask[at])
        about = {
            "end": (self.pages + 1) * size - 1,
            "pages": self.pages,
            "page": int(pages[at]),
            "owner": self._owner(int(pages[at]), request),
            "offset": int(offsets[at]),
            "place": int(places[at] % size),
            "size": size,
            "last": int(last[at]),
        }
        raise AllocatorFault(
            f"token {places[at]} of request {request} was given slot {new[at]}, {what.format(**about)}",
            fix.format(**about),
        )

    def _owner(self, page: int, request: int) -> str:
        for other, slots in self.requests.items():
            if other != request and page in self._pages(slots):
                return f"request {other}"
        return "an open free group"

    # What requests do by themselves

    def fork(self, request: int, other: int, pages: int) -> None:
        """A new request `other` begins with the first `pages` pages of `request`, which are full."""
        self.requests[other] = self.requests[request][: pages * self.page_size]
        self.users[self._pages(self.requests[other])] += 1

    def dealt(self, request: int, pages: Slots, other: int) -> None:
        """Whole pages of a request become those of a new request `other`, in this order."""
        slots = self.requests[request]
        rest = slots[~np.isin(slots // self.page_size, pages)]
        del self.requests[request]
        if len(rest):
            self.requests[request] = rest
        self.requests[other] = (pages[:, None] * self.page_size + np.arange(self.page_size)).ravel()

    def shortened(self, request: int, tokens: int) -> Slots:
        """The request keeps its first `tokens` tokens, a multiple of the page size, and ends where it keeps none;
        returns the slots that no other request has."""
        slots = self.requests.pop(request)
        if tokens:
            self.requests[request] = slots[:tokens]
        gone = slots[tokens:]
        pages = self._pages(gone)
        self.users[pages] -= 1
        free = pages[self.users[pages] == 0]
        if self.held_by_group is not None:
            self.held_by_group = np.concatenate((self.held_by_group, free))
        return gone[np.isin(gone // self.page_size, free)]

    def _pages(self, slots: Slots) -> Slots:
        """Of the slots of one request, a page for each `page_size` tokens."""
        return slots[:: self.page_size] // self.page_size
