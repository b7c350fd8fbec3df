"""The allocator of single slots, used when the page size is 1."""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from sglang_platform.core.memory.arguments import require_at_least
from sglang_platform.core.memory.base_allocator import BaseTokenToKVPoolAllocator
from sglang_platform.core.memory.ids import as_ids, as_tensor

__all__ = ["TokenToKVPoolAllocator"]

_NOT_PAGED = "this allocator lends single slots: call alloc(), or use the paged allocator"


class TokenToKVPoolAllocator(BaseTokenToKVPoolAllocator):
    """Lends slots 1 to `size` one by one; slot 0 is the padding slot.

    The cost of `alloc` and `free` is linear in the number of slots they take, whatever `size` is.
    """

    def __init__(
        self, size: int, dtype: torch.dtype, device: str | torch.device, kvcache: Any, need_sort: bool
    ) -> None:
        super().__init__(size, 1, dtype, device, kvcache, need_sort)

    def clear(self) -> None:
        """Mark all `size` slots free."""
        self.num_pages = self.size
        super().clear()

    def alloc(self, need_size: int) -> torch.Tensor | None:
        """`need_size` slots, int64 [need_size] on the device; None when fewer are free, with nothing
        changed."""
        free = self._free_list
        if need_size < 0:
            require_at_least(self, 0, need_size=need_size)
        if need_size > free.count and not self._can_take(need_size):
            return None
        ids = free.peek(need_size)
        # A copy, since the ids are overwritten when slots are freed.
        slots = as_tensor(ids.copy() if free.on_host else ids.clone())
        free.drop(need_size)
        return slots

    def free(self, free_index: torch.Tensor) -> None:
        """Give slots back, each named once, in any order."""
        if free_index.numel() == 0:
            return
        if self.free_group is None:
            self._give_back(as_ids(free_index, self._free_list.ids))
        else:
            self.free_group.append(free_index.clone())

    def alloc_extend(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Not here: raises NotImplementedError."""
        raise NotImplementedError(_NOT_PAGED)

    def alloc_decode(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Not here: raises NotImplementedError."""
        raise NotImplementedError(_NOT_PAGED)
