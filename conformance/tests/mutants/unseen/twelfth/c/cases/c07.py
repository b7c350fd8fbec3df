"""An allocator on a bitmap: a byte for each page, the lowest free page is lent first, whatever was freed last.

Permitted by: PagedTokenToKVPoolAllocator ("Lends pages 1 to `size // page_size`": which of the free ones first is
nowhere said), BaseTokenToKVPoolAllocator ("`need_sort` lends ascending pages": here always; "backup_state ... for
`restore_state()`": its form is the allocator's own).

level: memory
"""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

import torch
from sglang_platform.conformance.reference.allocator import ReferencePagedAllocator
from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core.errors import PlatformError

_log = logging.getLogger(__name__)

_LENT, _FREE = 0, 1


class _Snapshot(NamedTuple):
    """A bitmap as it was."""

    bits: bytes
    count: int
    lowest: int


class _BitmapAllocator(ReferencePagedAllocator):
    """`_bits[p]` is 1 where page p is free; `_bits[0]` never is. Below `_lowest` nothing is free."""

    def clear(self) -> None:
        self._bits = bytearray(b"\x00" + b"\x01" * self.num_pages)
        self._count, self._lowest = self.num_pages, 1
        self.free_group = None
        self.free_page_ids_group = []
        _log.debug("%d pages are free", self._count)

    def available_size(self) -> int:
        return self._count * self.page_size

    @property
    def free_pages(self) -> torch.Tensor:  # type: ignore[override]
        bits = torch.frombuffer(bytearray(self._bits), dtype=torch.uint8)
        return bits.nonzero().reshape(-1).to(self.device)

    def alloc(self, need_size: int) -> torch.Tensor | None:
        if need_size % self.page_size:
            raise PlatformError(f"alloc({need_size}) lends whole pages of {self.page_size} slots")
        return super().alloc(need_size)

    def _take(self, count: int) -> list[int] | None:
        if count > self._count:
            return None
        pages, at = [], self._lowest
        for _ in range(count):
            at = self._bits.index(_FREE, at)
            pages.append(at)
            self._bits[at] = _LENT
            at += 1
        self._lowest, self._count = at, self._count - count
        return pages

    def _give_back_pages(self, pages: list[int]) -> None:
        wrong = [page for page in pages if not 1 <= page <= self.num_pages or self._bits[page] == _FREE]
        if wrong or len(set(pages)) < len(pages):
            raise PlatformError(
                f"pages {wrong or pages} are freed, and are not lent",
                why="they were freed before, or never handed out",
                fix="free every page once, when its last user is done",
            )
        for page in pages:
            self._bits[page] = _FREE
        self._count += len(pages)
        self._lowest = min([self._lowest, *pages])

    def backup_state(self) -> Any:
        return _Snapshot(bytes(self._bits), self._count, self._lowest)

    def restore_state(self, state: Any) -> None:
        self._bits, self._count, self._lowest = bytearray(state.bits), state.count, state.lowest


class Platform(ReferencePlatform):
    """Nothing else differs."""

    def get_paged_allocator_cls(self) -> type | None:
        return _BitmapAllocator
