"""The table from requests to slots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from sglang_platform.core.contract.parts import Part
from sglang_platform.core.errors import PlatformError
from sglang_platform.core.memory.arguments import require_at_least

__all__ = ["ReqToTokenPool"]


class ReqToTokenPool(Part):
    """`req_to_token` int32 [size + 1, max_context_len] on the device: the slot of each token of each running
    request.

    Row 0 is the padding row: padded requests of a graph batch read and write there. Rows 1 to `size` are lent. The
    ownership of rows is kept on the CPU. Source of the interface: SGLang 0.5.23, `ReqToTokenPool`.
    """

    enable_mamba_extra_buffer_lazy: bool = False
    # Rows beyond `size` that a decode node lends to requests whose cache is still in transfer.
    pre_alloc_size: int = 0

    def __init__(
        self, size: int, max_context_len: int, device: str | torch.device, enable_memory_saver: bool
    ) -> None:
        """`size` requests of up to `max_context_len` tokens; `enable_memory_saver` acts in the host only.

        Raises PlatformError for sizes under 1.
        """
        require_at_least(self, 1, size=size, max_context_len=max_context_len)
        self.size = size
        self._alloc_size = size + 1
        self.max_context_len = max_context_len
        self.device = device
        self.enable_memory_saver = enable_memory_saver
        self.req_to_token = torch.zeros(
            (self._alloc_size, max_context_len), dtype=torch.int32, device=torch.device(device)
        )
        self.free_slots = list(range(1, self._alloc_size))
        # How often each row was lent: a reader that remembers the number detects a new owner.
        self.req_generation = torch.zeros(self._alloc_size, dtype=torch.int64)
        self._aux_cache: Any = None
        self._on_alloc_rows: Callable[[list[int]], None] | None = None

    def write(self, indices: Any, values: torch.Tensor) -> None:
        """`req_to_token[indices] = values`; `indices` is a row, a (row, slice) pair, or a pair of index
        tensors."""
        self.req_to_token[indices] = values

    def available_size(self) -> int:
        """Rows that are free."""
        return len(self.free_slots)

    def alloc_rows(self, need_size: int) -> list[int] | None:
        """`need_size` rows, or None when fewer are free, with nothing changed."""
        require_at_least(self, 0, need_size=need_size)
        left = len(self.free_slots) - need_size
        if left < 0:
            return None
        rows = self.free_slots[left:]
        del self.free_slots[left:]
        if rows:
            self.req_generation[rows] += 1
            if self._on_alloc_rows is not None:
                self._on_alloc_rows(rows)
        return rows

    def free_rows(self, indices: Sequence[int]) -> None:
        """Give rows back. Raises PlatformError for a row that was never lent; nothing is freed then."""
        for row in indices:
            if not 1 <= row < self._alloc_size:
                raise PlatformError(
                    f"row {row} of the request table is freed",
                    why=f"rows 1 to {self._alloc_size - 1} are lent; row 0 is reserved for padding",
                )
        if len(self.free_slots) + len(indices) > self._alloc_size - 1:
            raise PlatformError(
                f"{len(indices)} rows of the request table are freed, but fewer are in use",
                why="some row is freed twice",
                fix="free a request once, when it ends or is retracted",
            )
        if self._aux_cache is not None:
            for row in indices:
                self._aux_cache.free(row)
        self.free_slots.extend(indices)

    def alloc(self, reqs: Sequence[Any]) -> list[int] | None:
        """A row for each request; one that has a row already (chunked prefill) keeps it.

        A request's record is `req.kv`, with `holds_kv` and `req_pool_idx`, which is set here. Returns the
        rows in the requests' order, or None when too few are free, with nothing changed.
        """
        without = [req.kv for req in reqs if not req.kv.holds_kv]
        rows = self.alloc_rows(len(without))
        if rows is None:
            return None
        for record, row in zip(without, rows, strict=True):
            record.req_pool_idx = row
        return [req.kv.req_pool_idx for req in reqs]

    def free(self, req: Any) -> None:
        """Give a request's row back. Raises PlatformError when it has none."""
        if not req.kv.holds_kv:
            raise PlatformError(
                "a request without a row in the request table is freed",
                why="it was freed before, or never scheduled",
            )
        self.free_rows([req.kv.req_pool_idx])
        req.kv.req_pool_idx = None

    def clear(self) -> None:
        """All rows free. Generations go on counting, so that no reader mistakes a new owner for the old
        one."""
        self.free_slots = list(range(1, self._alloc_size))
        if self._aux_cache is not None:
            self._aux_cache.clear()

    # What the host attaches

    def attach_aux_cache(self, aux_cache: Any) -> None:
        """Attach an object with more state per row; it is notified when rows are freed or the table is cleared."""
        self._aux_cache = aux_cache

    def register_on_alloc_rows(self, hook: Callable[[list[int]], None]) -> None:
        """`hook(rows)` is called whenever rows are lent."""
        self._on_alloc_rows = hook
