"""Moving rows between slots, in every buffer of a pool at once.

    buffer[tgt[i]] = buffer[src[i]]  for all i, as if all were read before any is written

One program takes a range of columns of one buffer and all n rows of it: it reads them into registers, waits for its
own threads, then writes. No other program touches those columns, so rows that are both source and target come out
right. The buffers are found through a table of addresses, so that one launch serves all layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from sglang_platform.core.portable.triton.launch import Launch, tuned

__all__ = ["MOST_ROWS", "BufferTable", "Rows", "move_rows", "move_rows_kernel"]

MOST_ROWS = 512
"""Rows that one program can hold in registers beside a useful width; above it a copy through memory is as fast."""


@triton.jit(do_not_specialize=["n"])
def move_rows_kernel(
    table_ptr, tgt_ptr, src_ptr, n,
    PER_PAGE: tl.constexpr, ALIGNED: tl.constexpr, WORD: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Grid (buffers, column ranges). `table` int64 [buffers, 3]: address, bytes between pages, bytes of a row.

    Slot s of a buffer begins at `address + (s // PER_PAGE) * between + (s % PER_PAGE) * row`. `WORD` bytes are moved at
    a time and divide all three numbers; `ALIGNED` says that 16 does, too.
    """
    entry = table_ptr + tl.program_id(0) * 3
    address = tl.load(entry)
    between = tl.load(entry + 1)
    row = tl.load(entry + 2)
    if ALIGNED:
        between = tl.multiple_of(between, 16)
        row = tl.multiple_of(row, 16)
    if WORD == 8:
        buffer = address.to(tl.pointer_type(tl.int64))
    elif WORD == 4:
        buffer = address.to(tl.pointer_type(tl.int32))
    elif WORD == 2:
        buffer = address.to(tl.pointer_type(tl.int16))
    else:
        buffer = address.to(tl.pointer_type(tl.int8))
    if ALIGNED:
        buffer = tl.multiple_of(buffer, 16)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    which = tl.arange(0, BLOCK_N)
    live = which < n
    source = tl.load(src_ptr + which, mask=live, other=0).to(tl.int64)
    target = tl.load(tgt_ptr + which, mask=live, other=0).to(tl.int64)
    if PER_PAGE == 1:
        read_at, write_at = source * (between // WORD), target * (between // WORD)
    else:
        read_at = (source // PER_PAGE) * (between // WORD) + (source % PER_PAGE) * (row // WORD)
        write_at = (target // PER_PAGE) * (between // WORD) + (target % PER_PAGE) * (row // WORD)
    mask = live[:, None] & (column < row // WORD)[None, :]
    words = tl.load(buffer + read_at[:, None] + column[None, :], mask=mask)
    tl.debug_barrier()  # every thread of the program has read before one writes
    tl.store(buffer + write_at[:, None] + column[None, :], words, mask=mask)


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
    """The buffers of a pool that share one way of finding a slot, as the kernel reads them."""

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

    def holds(self, buffers: Sequence[Rows]) -> bool:
        """Whether these buffers still are the ones of the table (a host may back a pool with new memory)."""
        return len(buffers) == len(self.buffers) and all(
            new.storage.data_ptr() == old.storage.data_ptr()
            for new, old in zip(buffers, self.buffers, strict=True)
        )

    def part(self, first: int, count: int) -> BufferTable:
        """The table of `count` buffers from `first` on; no copy."""
        part = object.__new__(BufferTable)
        part.__dict__.update(self.__dict__)
        part.buffers = self.buffers[first : first + count]
        part.table = self.table[first : first + count]
        return part

    def move(self, tgt_loc: torch.Tensor, src_loc: torch.Tensor, launch: Launch | None = None) -> None:
        """Move rows `src_loc` [n] to `tgt_loc` [n] in every buffer; 0 < n <= MOST_ROWS, no target named twice."""
        n = tgt_loc.numel()
        launch = launch or tuned(tgt_loc.device).move
        block_n = triton.next_power_of_2(n)
        widest = triton.next_power_of_2(self.widest // self.word)
        # A range of 128 bytes at least, so that each row gives whole memory transactions.
        block = min(widest, max(launch.elements // block_n, 128 // self.word))
        grid = (len(self.buffers), triton.cdiv(self.widest // self.word, block))
        move_rows_kernel[grid](
            self.table, tgt_loc, src_loc, n,
            PER_PAGE=self.per_page, ALIGNED=self.aligned, WORD=self.word,
            BLOCK_N=block_n, BLOCK=block,
            num_warps=max(launch.num_warps, min(16, block_n * block * self.word // 8192)),
        )  # fmt: skip


def move_rows(
    buffers: Sequence[Rows], tgt_loc: torch.Tensor, src_loc: torch.Tensor, *, launch: Launch | None = None
) -> None:
    """`BufferTable.move` for buffers that are moved once; a pool keeps its table. At least one buffer and one row."""
    BufferTable(buffers).move(tgt_loc, src_loc, launch)
