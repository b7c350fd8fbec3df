"""The paged allocator: a list of free pages, and the set of those that are lent."""

from __future__ import annotations

from typing import Any

import torch

from sglang_platform.core import PagedTokenToKVPoolAllocator
from sglang_platform.core.errors import PlatformError

__all__ = ["ReferencePagedAllocator"]


class ReferencePagedAllocator(PagedTokenToKVPoolAllocator):
    """Lends pages 1 to num_pages. Page p is slots p * page_size to (p + 1) * page_size - 1."""

    def __init__(
        self,
        size: int,
        page_size: int,
        dtype: torch.dtype,
        device: str | torch.device,
        kvcache: Any,
        need_sort: bool,
    ) -> None:
        super().__init__(size, page_size, dtype, device, kvcache, need_sort)
        self.clear()

    def clear(self) -> None:
        self._free = list(range(1, self.num_pages + 1))
        self._lent: set[int] = set()
        self.free_group = None
        self.free_page_ids_group = []

    def available_size(self) -> int:
        return len(self._free) * self.page_size

    @property
    def free_pages(self) -> torch.Tensor:  # type: ignore[override]
        return self._tensor(self._free)

    def get_all_free_pages(self) -> torch.Tensor:
        return self.free_pages

    def alloc(self, need_size: int) -> torch.Tensor | None:
        pages = self._take(need_size // self.page_size)
        if pages is None:
            return None
        return self._tensor([page * self.page_size + at for page in pages for at in range(self.page_size)])

    def alloc_extend(
        self,
        prefix_lens: torch.Tensor,
        prefix_lens_cpu: torch.Tensor,
        seq_lens: torch.Tensor,
        seq_lens_cpu: torch.Tensor,
        last_loc: torch.Tensor,
        extend_num_tokens: int,
        num_new_pages: int | None = None,
    ) -> torch.Tensor | None:
        return self._grow(prefix_lens_cpu.tolist(), seq_lens_cpu.tolist(), last_loc.tolist())

    def alloc_decode(
        self, seq_lens: torch.Tensor, seq_lens_cpu: torch.Tensor, last_loc: torch.Tensor
    ) -> torch.Tensor | None:
        after = seq_lens_cpu.tolist()
        return self._grow([n - 1 for n in after], after, last_loc.tolist())

    def _grow(self, before: list[int], after: list[int], last: list[int]) -> torch.Tensor | None:
        """Slots for tokens before[i] to after[i] - 1 of each request, whose last token has slot last[i]."""
        pages = self._take(sum(self._pages(n) - self._pages(m) for m, n in zip(before, after, strict=True)))
        if pages is None:
            return None
        slots = []
        for start, end, slot in zip(before, after, last, strict=True):
            for token in range(start, end):
                if token % self.page_size == 0:
                    slot = pages.pop(0) * self.page_size
                else:
                    slot = slot + 1
                slots.append(slot)
        return self._tensor(slots)

    def _pages(self, tokens: int) -> int:
        return -(-tokens // self.page_size)

    def _take(self, count: int) -> list[int] | None:
        if count > len(self._free):
            return None
        pages, self._free = self._free[:count], self._free[count:]
        self._lent.update(pages)
        return pages

    def free(self, free_index: torch.Tensor) -> None:
        if free_index.numel() == 0:
            return
        if self.free_group is not None:
            self.free_group.append(free_index.clone())
            return
        self._give_back_pages(sorted({slot // self.page_size for slot in free_index.tolist()}))

    def free_page_ids(self, page_ids: torch.Tensor) -> None:
        if self.free_group is not None:
            self.free_page_ids_group.append(page_ids.clone())
            return
        self._give_back_pages(page_ids.tolist())

    def free_segment(self, free_index: torch.Tensor, *, start_pos: int) -> None:
        if start_pos % self.page_size:
            raise PlatformError(f"a segment starts at {start_pos}, inside a page of {self.page_size}")
        self.free(free_index)

    def free_group_end(self) -> None:
        slots, self.free_group = self.free_group, None
        pages, self.free_page_ids_group = self.free_page_ids_group, []
        if slots:
            self.free(torch.cat(slots))
        for ids in pages:
            self.free_page_ids(ids)

    def _give_back_pages(self, pages: list[int]) -> None:
        twice = [page for page in pages if page not in self._lent]
        if twice or len(set(pages)) < len(pages):
            raise PlatformError(
                f"pages {twice or pages} are freed, and are not lent",
                why="they were freed before, or never handed out",
                fix="free every page once, when its last user is done",
            )
        self._lent.difference_update(pages)
        self._free = pages + self._free
        if self.need_sort:
            self._free.sort()

    def backup_state(self) -> Any:
        return list(self._free), set(self._lent)

    def restore_state(self, state: Any) -> None:
        free, lent = state
        self._free, self._lent = list(free), set(lent)

    def _tensor(self, values: list[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int64, device=self.device)
