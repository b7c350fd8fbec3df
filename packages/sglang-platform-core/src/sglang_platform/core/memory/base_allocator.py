"""What the slot allocator and the paged allocator share: the free list, free groups, backups, segments."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, ClassVar

import torch

from sglang_platform.core.contract.parts import Part
from sglang_platform.core.errors import PlatformError
from sglang_platform.core.memory.arguments import require_at_least
from sglang_platform.core.memory.free_list import FreeList, SavedFreeList
from sglang_platform.core.memory.ids import Ids, as_ids, as_tensor

__all__ = ["DEBUG_VARIABLE", "BaseTokenToKVPoolAllocator"]

DEBUG_VARIABLE = "SGLANG_PLATFORM_DEBUG_MEMORY"


class BaseTokenToKVPoolAllocator(Part):
    """Lends the slots of a KV pool, in pages of `page_size` slots.

    Slots 0 to page_size - 1 (page 0) are the padding page: padded tokens of a graph batch write there, and
    they are never handed out. Of `size` slots, `size // page_size` whole pages can be lent.

    Every slot tensor that goes in or out has dtype int64 and lives on `device`. On the way in int32 is accepted;
    `alloc_extend` and `alloc_decode` of a device may both answer int32, as those of SGLang's NPU allocator do. The
    scheduler calls an allocator from one thread. Source of the interface: SGLang 0.5.23, `mem_cache/allocator`.

    A page that is freed and is not in use (freed twice, in one call or in two; page 0; out of range) raises
    PlatformError: on the CPU and in debug mode at once, with nothing changed; on other devices at a later
    call, since a free never waits for the device (see `page_marks`). `debug_mode` (set on the class, or by
    SGLANG_PLATFORM_DEBUG_MEMORY=1, or by SGLang's SGLANG_DEBUG_MEMORY_POOL=1) also checks the lengths of each
    call.
    """

    debug_mode: bool = False
    # On the CPU numpy does the arithmetic. False takes the torch path of all other devices there too.
    use_numpy_on_cpu: ClassVar[bool] = True

    def __init__(
        self,
        size: int,
        page_size: int,
        dtype: torch.dtype,
        device: str | torch.device,
        kvcache: Any,
        need_sort: bool,
    ) -> None:
        """`size` in slots; `dtype` and `kvcache` are kept for the host; `need_sort` lends ascending pages
        (see `merge_and_sort_free`). Raises PlatformError for a size under one page."""
        require_at_least(self, 1, size=size, page_size=page_size)
        self.size = size
        self.page_size = page_size
        self.num_pages = size // page_size
        self.dtype = dtype
        self.device = device
        self.need_sort = need_sort
        self.debug_mode = self.debug_mode or _debug_wanted()
        self._kvcache = kvcache
        self._torch_device = torch.device(device)
        self._free_list = self._build_free_list()
        # None: frees take effect at once. A list: they wait here for free_group_end().
        self.free_group: list[torch.Tensor] | None = None
        self.free_page_ids_group: list[torch.Tensor] = []

    # Capacity

    def available_size(self) -> int:
        """Free slots, staged ones included, those in an open free group not."""
        return (self._free_list.count + self._free_list.staged) * self.page_size

    # The free pages, as the host's invariant checks read them

    @property
    def free_pages(self) -> torch.Tensor:
        """Page ids that can be lent now, next first; a view, valid until the next call."""
        return as_tensor(self._free_list.free_ids())

    @free_pages.setter
    def free_pages(self, page_ids: torch.Tensor) -> None:
        # For devices that write their own alloc_extend in SGLang's style: free_pages = free_pages[taken:].
        free, n = self._free_list, page_ids.numel()
        tail = as_tensor(free.ids[free.capacity - n :]) if n <= free.count else None
        if tail is not None and page_ids.is_contiguous() and page_ids.data_ptr() == tail.data_ptr():
            free.drop(free.count - n)
        else:
            free.replace(as_ids(page_ids, free.ids))

    @property
    def release_pages(self) -> torch.Tensor:
        """Page ids that were freed and wait to be sorted in; a view, valid until the next call."""
        return as_tensor(self._free_list.staged_ids())

    @property
    def staged_pages(self) -> list[torch.Tensor]:
        """`release_pages` as a list of tensors, empty when nothing is staged."""
        return [self.release_pages] if self._free_list.staged else []

    @property
    def num_staged_pages(self) -> int:
        return self._free_list.staged

    def get_all_free_pages(self) -> torch.Tensor:
        """A copy of all free page ids, staged ones last."""
        return torch.cat((self.free_pages, self.release_pages))

    def merge_and_sort_free(self) -> None:
        """With `need_sort`, freed pages are staged; this makes them available, in ascending order.

        The allocator calls it when it runs short, so that consecutive tokens lie in neighbouring pages again.
        """
        self._free_list.merge_sorted()

    # Freeing

    def free(self, free_index: torch.Tensor) -> None:
        """Give slots back: any order, any number of slots of a page, each page is freed once."""
        raise NotImplementedError

    def free_page_ids(self, page_ids: torch.Tensor) -> None:
        """Give exactly these pages back, each named once."""
        if page_ids.numel() == 0:
            return
        if self.free_group is None:
            self._release_page_ids(page_ids)
        else:
            self.free_page_ids_group.append(page_ids.clone())

    def free_group_begin(self) -> None:
        """Defer frees until `free_group_end()`; the scheduler does so while it still reads the slots that it frees.

        Raises PlatformError inside an open group.
        """
        if self.free_group is not None:
            raise PlatformError(
                "free_group_begin() was called inside a free group",
                why="groups do not nest",
                fix="call free_group_end() first",
            )
        self.free_group = []
        self.free_page_ids_group = []

    def free_group_end(self) -> None:
        """Free the slots that the group collected; does nothing without an open group."""
        slots, self.free_group = self.free_group, None
        page_ids, self.free_page_ids_group = self.free_page_ids_group, []
        if slots:
            self.free(torch.cat(slots))
        if page_ids:
            self._release_page_ids(*page_ids)

    def free_segment(self, free_index: torch.Tensor, *, start_pos: int) -> None:
        """Free the slots of token positions `start_pos` onwards of one request, [n], whole pages.

        `start_pos` lies on a page boundary, so every page_size-th slot names its page: no search for
        duplicates, no wait for the device. Raises PlatformError for another `start_pos`.
        """
        if start_pos % self.page_size:
            raise PlatformError(
                f"free_segment() starts at position {start_pos}",
                why=f"that is not a multiple of the page size {self.page_size}",
                fix="free from the start of a page, or use free()",
            )
        self.free_page_ids(free_index[:: self.page_size] // self.page_size)

    def free_segments(self, segments: Iterable[tuple[torch.Tensor, int]]) -> None:
        """Free several `(slots, start_pos)` segments of one request, in order; no two may share a page."""
        next_page = 0
        for free_index, start_pos in segments:
            if free_index.numel() == 0:
                continue
            if start_pos // self.page_size < next_page:
                raise PlatformError(
                    f"the segment at position {start_pos} shares a page with the one before it",
                    why="that page would be freed twice",
                    fix="pass segments in ascending order that begin on pages of their own",
                )
            next_page = -(-(start_pos + free_index.numel()) // self.page_size)
            self.free_segment(free_index, start_pos=start_pos)

    def _release_page_ids(self, *page_ids: torch.Tensor) -> None:
        for ids in page_ids:
            self._give_back(as_ids(ids, self._free_list.ids))

    def _give_back(self, ids: Ids) -> None:
        if self.need_sort:
            self._free_list.stage(ids)
        else:
            self._free_list.put(ids)

    # The whole state

    def clear(self) -> None:
        """Mark all pages free; builds a new free list if `num_pages` has changed."""
        self.free_group = None
        self.free_page_ids_group = []
        if self._free_list.capacity == self.num_pages:
            self._free_list.reset()
        else:
            self._free_list = self._build_free_list()

    def resize(self, config: Any) -> None:
        """Lend `config.max_total_num_tokens` slots from now on, all free."""
        require_at_least(self, 1, size=config.max_total_num_tokens)
        self.size = config.max_total_num_tokens
        self.num_pages = self.size // self.page_size
        self.clear()

    def backup_state(self) -> SavedFreeList:
        """The free pages at this moment, for `restore_state()`; frees in an open group are not part of it.

        A copy of their ids. Older releases of SGLang keep one around a speculative step.
        """
        return self._free_list.save()

    def restore_state(self, state: SavedFreeList) -> None:
        """Undo every allocation and free since `state` was saved."""
        self._free_list.restore(state)

    def get_cpu_copy(
        self, indices: torch.Tensor, mamba_indices: Any = None, req_pool_index: Any = None
    ) -> Any:
        """The KV pool's `get_cpu_copy()` for these slots; the host keeps a retracted request there."""
        return self._kvcache.get_cpu_copy(indices, mamba_indices=mamba_indices, req_pool_index=req_pool_index)

    def load_cpu_copy(
        self, kv_cache_cpu: Any, indices: torch.Tensor, mamba_indices: Any = None, req_pool_index: Any = None
    ) -> None:
        """The KV pool's `load_cpu_copy()` into these slots."""
        self._kvcache.load_cpu_copy(
            kv_cache_cpu, indices, mamba_indices=mamba_indices, req_pool_index=req_pool_index
        )

    # For the subclasses

    def _build_free_list(self) -> FreeList:
        return FreeList(
            self.num_pages, self._torch_device, use_numpy=self.use_numpy_on_cpu, debug=self.debug_mode
        )

    def _can_take(self, pages: int) -> bool:
        free = self._free_list
        if pages <= free.count:
            return True
        if pages > free.count + free.staged:
            return False
        self.merge_and_sort_free()
        return True


def _debug_wanted() -> bool:
    names = (DEBUG_VARIABLE, "SGLANG_DEBUG_MEMORY_POOL")
    return any(os.environ.get(name, "").lower() in ("1", "true", "yes", "on") for name in names)
