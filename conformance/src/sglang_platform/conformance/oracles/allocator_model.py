"""Who owns which slot, as sets. The whole truth about a paged allocator, without a free list.

A slot s lies in page s // page_size. Page 0 is the padding page and is nobody's. A request owns slots in the order of
its tokens; its tokens fill a page from its first slot to its last before another page is taken. A page belongs to one
request at most, and is free exactly when no request owns it and no open free group holds it.
"""

from __future__ import annotations

from sglang_platform.conformance.check import CheckFailed

__all__ = ["AllocatorFault", "AllocatorModel", "pages_of"]


class AllocatorFault(CheckFailed):
    """What the allocator did wrong: `what` happened, and the `fix`."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what, fix=fix)


def pages_of(slots: list[int], page_size: int) -> set[int]:
    """The pages that slots lie in."""
    return {slot // page_size for slot in slots}


class AllocatorModel:
    """`requests` maps a request to its slots, in the order of its tokens."""

    def __init__(self, pages: int, page_size: int) -> None:
        self.pages = pages
        self.page_size = page_size
        self.requests: dict[int, list[int]] = {}
        self.held_by_group: set[int] | None = None

    # Questions

    def used(self) -> set[int]:
        """Pages that nobody may be given."""
        used = set(self.held_by_group or ())
        for slots in self.requests.values():
            used |= pages_of(slots, self.page_size)
        return used

    def available(self) -> int:
        """Slots that can be asked for."""
        return (self.pages - len(self.used())) * self.page_size

    def pages_for(self, before: int, after: int) -> int:
        """New pages that a request needs to grow from `before` tokens to `after`."""
        whole = -(-after // self.page_size)
        return whole - -(-before // self.page_size)

    # What was answered

    def grew(self, request: int, new: list[int]) -> None:
        """`new` was given to `request` for its next tokens. Raises AllocatorFault where that may not be."""
        slots = list(self.requests.get(request, []))
        taken = self.used() - pages_of(slots, self.page_size)
        for slot in new:
            self._legal(request, slots, slot, taken)
            slots.append(slot)
        self.requests[request] = slots

    def _legal(self, request: int, slots: list[int], slot: int, taken: set[int]) -> None:
        size, position = self.page_size, len(slots)
        page, offset = divmod(slot, size)
        if page == 0:
            raise AllocatorFault(
                f"slot {slot} was handed out, which lies in page 0, the padding page",
                "number pages from 1: padded tokens of a graph batch write to slot 0",
            )
        if not 0 < page <= self.pages:
            raise AllocatorFault(
                f"slot {slot} was handed out, but the last one is {(self.pages + 1) * size - 1}",
                f"lend pages 1 to size // page_size = {self.pages} only",
            )
        if page in taken:
            raise AllocatorFault(
                f"slot {slot} was handed out to request {request}, but page {page} is in use by "
                + self._owner(page, request),
                "take a page off the free list when it is lent, and put it back when it is freed, once",
            )
        if slot in slots:
            raise AllocatorFault(
                f"slot {slot} was handed out twice to request {request}, for tokens {slots.index(slot)} and {position}",
                "every token gets a slot of its own",
            )
        if offset != position % size:
            raise AllocatorFault(
                f"token {position} of request {request} got slot {slot}, place {offset} of page {page}",
                f"with page size {size} it belongs to place {position % size}: fill a page from its first slot on",
            )
        if offset and page != slots[-1] // size:
            raise AllocatorFault(
                f"token {position} of request {request} got slot {slot}, but its last page is {slots[-1] // size}",
                "the tail of the last page is filled before a new page is taken",
            )
        if not offset and page in pages_of(slots, size):
            raise AllocatorFault(
                f"token {position} of request {request} starts on page {page}, which the request has already",
                "a full page is followed by a new one",
            )

    def _owner(self, page: int, request: int) -> str:
        for other, slots in self.requests.items():
            if other != request and page in pages_of(slots, self.page_size):
                return f"request {other}"
        return "an open free group"

    # What was asked for

    def finished(self, request: int) -> list[int]:
        """The request is freed; returns its slots."""
        slots = self.requests.pop(request)
        if self.held_by_group is not None:
            self.held_by_group |= pages_of(slots, self.page_size)
        return slots

    def shortened(self, request: int, tokens: int) -> list[int]:
        """The request keeps its first `tokens` tokens, a multiple of the page size; returns the slots that go."""
        slots = self.requests[request]
        self.requests[request], gone = slots[:tokens], slots[tokens:]
        if self.held_by_group is not None:
            self.held_by_group |= pages_of(gone, self.page_size)
        return gone
