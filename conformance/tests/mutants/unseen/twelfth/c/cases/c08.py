"""An allocator that answers int32 in all calls, keeps its free pages in a tensor and lends from the high end.

Permitted by: docs/kv_layout.md ("answers int64 `[extend_num_tokens]` (or int32, then in all calls)"); the order of
pages is free where `need_sort` is False, and ascending where it is True ("`need_sort` lends ascending pages").

level: memory
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from sglang_platform.conformance.reference.allocator import ReferencePagedAllocator
from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core.errors import PlatformError


class _HighEndAllocator(ReferencePagedAllocator):
    """`_stack[:_height]` are the free pages, the next at the top."""

    def clear(self) -> None:
        self._stack = torch.arange(1, self.num_pages + 1, dtype=torch.int64)
        if self.need_sort:
            self._stack = self._stack.flip(0)
        self._height = self.num_pages
        self._is_lent = torch.zeros(self.num_pages + 1, dtype=torch.bool)
        self.free_group = None
        self.free_page_ids_group = []

    @cached_property
    def _within(self) -> torch.Tensor:
        return torch.arange(self.page_size)

    def available_size(self) -> int:
        return self._height * self.page_size

    @property
    def free_pages(self) -> torch.Tensor:  # type: ignore[override]
        return self._stack[: self._height].flip(0).to(self.device)

    def alloc(self, need_size: int) -> torch.Tensor | None:
        count, rest = divmod(need_size, self.page_size)
        if rest or count < 0:
            raise PlatformError(f"alloc({need_size}) lends whole pages of {self.page_size} slots")
        pages = self._take(count)
        if pages is None:
            return None
        first = torch.tensor(pages, dtype=torch.int64)[:, None] * self.page_size
        return (first + self._within).reshape(-1).to(self.device)

    def _take(self, count: int) -> list[int] | None:
        if count > self._height:
            return None
        taken = self._stack[self._height - count : self._height].flip(0)
        self._height -= count
        self._is_lent[taken] = True
        return taken.tolist()

    def _give_back_pages(self, pages: list[int]) -> None:
        ids = torch.tensor(pages, dtype=torch.int64)
        inside = (ids >= 1) & (ids <= self.num_pages)
        good = bool(inside.all()) and bool(self._is_lent[ids].all()) and len(ids.unique()) == len(ids)
        if not good:
            raise PlatformError(
                f"pages {pages} are freed, and not all are lent",
                why="some were freed before, or never handed out",
                fix="free every page once, when its last user is done",
            )
        self._is_lent[ids] = False
        top = self._height + len(ids)
        self._stack[self._height : top] = ids
        self._height = top
        if self.need_sort:
            self._stack[:top] = self._stack[:top].sort(descending=True).values

    def backup_state(self) -> Any:
        return {"stack": self._stack.clone(), "height": self._height, "lent": self._is_lent.clone()}

    def restore_state(self, state: Any) -> None:
        self._stack, self._height = state["stack"].clone(), state["height"]
        self._is_lent = state["lent"].clone()

    def _tensor(self, values: list[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int32, device=self.device)


class Platform(ReferencePlatform):
    """Nothing else differs."""

    def get_paged_allocator_cls(self) -> type | None:
        return _HighEndAllocator
