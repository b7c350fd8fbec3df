"""Which pages of a pool are on the device, and where: a table with the page that was used longest ago first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from typing import NamedTuple

from sglang_platform.core.errors import PlatformError

__all__ = ["HotPages", "Move"]


class Move(NamedTuple):
    """`page` comes to `place` on the device; `evicted`, which was there, leaves it. None: the place was free."""

    page: int
    place: int
    evicted: int | None


class HotPages:
    """`places` places for any number of pages. Page 0, where padding is written, has place 0 for good."""

    def __init__(self, places: int) -> None:
        self.places = places
        self.clear()

    def clear(self) -> None:
        """No page but 0 is hot."""
        self._place_of: OrderedDict[int, int] = OrderedDict()
        self._free = list(range(self.places - 1, 0, -1))

    def take(self, pages: Collection[int]) -> list[Move]:
        """Make `pages` hot together, and say what moves for it. Raises PlatformError where they are too many."""
        wanted = {page for page in pages if page}
        if len(wanted) >= self.places:
            raise PlatformError(
                f"a batch reads {len(wanted)} pages, and {self.places - 1} fit on the device",
                fix=f"set DSV4_HOT_PAGES to at least {len(wanted) + 1}, or --max-running-requests lower",
            )
        for page in sorted(wanted & self._place_of.keys()):
            self._place_of.move_to_end(page)
        moves = []
        for page in sorted(wanted - self._place_of.keys()):
            # All that are wanted and hot stand behind those that are not, so the first is never one of them.
            evicted, place = (None, self._free.pop()) if self._free else self._place_of.popitem(last=False)
            self._place_of[page] = place
            moves.append(Move(page, place, evicted))
        return moves
