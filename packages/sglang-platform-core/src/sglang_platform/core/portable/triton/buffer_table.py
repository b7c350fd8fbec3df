"""Where the rows of many buffers lie: a table of addresses for a kernel, so that one launch serves all layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

__all__ = ["BufferTable", "Rows"]


@dataclass(frozen=True)
class Rows:
    """Where the rows of one buffer lie: slot s at `storage[s // per_page, s % per_page]`, contiguous bytes each.

    `storage` is [slots, ...] with `per_page` None, or [pages, per_page, bytes].
    """

    storage: torch.Tensor
    per_page: int | None = None

    @property
    def entry(self) -> tuple[int, int, int]:
        """Address, bytes between pages (or rows), bytes of a row."""
        size, storage = self.storage.element_size(), self.storage
        row = storage[0, 0].numel() if self.per_page else storage[0].numel()
        return storage.data_ptr(), storage.stride(0) * size, row * size


class BufferTable:
    """The address table of a pool's buffers that share one slot layout, as the kernel reads it."""

    def __init__(self, buffers: Sequence[Rows]) -> None:
        """At least one buffer, all on one device and with one `per_page`; kept alive."""
        self.buffers = tuple(buffers)
        self.per_page = self.buffers[0].per_page or 1
        entries = [rows.entry for rows in self.buffers]
        self.table = torch.tensor(entries, dtype=torch.int64, device=self.buffers[0].storage.device)
        self.widest = max(row for _, _, row in entries)
        numbers = [number for entry in entries for number in entry]
        self.word = next(size for size in (8, 4, 2, 1) if all(number % size == 0 for number in numbers))
        self.aligned = all(number % 16 == 0 for number in numbers)
