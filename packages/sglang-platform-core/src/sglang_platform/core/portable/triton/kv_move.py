"""Moving rows between slots, in every buffer of a pool at once.

    buffer[tgt[i]] = buffer[src[i]]  for all i, as if all were read before any is written

One program takes a range of columns of one buffer and all n rows of it: it reads them into registers, waits for its
own threads, then writes. No other program touches those columns, so rows that are both source and target come out
right. The buffers are found through a table of addresses, so that one launch serves all layers.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

from sglang_platform.core.portable.triton.architecture import LaunchShapes
from sglang_platform.core.portable.triton.buffer_table import BufferTable, Rows
from sglang_platform.core.portable.triton.launch import cdiv, next_power_of_2, portable_shapes

__all__ = ["MOST_ROWS", "move", "move_rows", "move_rows_kernel"]

MOST_ROWS = 512
"""Rows that one program can hold in registers beside a useful width; above it a copy through memory is as fast."""

# Bytes of the moved rows that one lane of a program may keep in registers.
_BYTES_PER_LANE = 256


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


def move(
    table: BufferTable, tgt_loc: torch.Tensor, src_loc: torch.Tensor, *, shapes: LaunchShapes | None = None
) -> None:
    """Move rows `src_loc` [n] to `tgt_loc` [n] in every buffer of `table`. 0 < n <= MOST_ROWS; no target is named
    twice. shapes: the launch shapes of the device; None takes `launch.portable_shapes`."""
    n = tgt_loc.numel()
    shapes = shapes or portable_shapes(tgt_loc.device)
    launch = shapes.move
    block_n = next_power_of_2(n)
    widest = next_power_of_2(table.widest // table.word)
    # A range of 128 bytes at least, so that each row gives whole memory transactions.
    block = min(widest, max(launch.elements // block_n, 128 // table.word))
    grid = (len(table.buffers), cdiv(table.widest // table.word, block))
    move_rows_kernel[grid](
        table.table, tgt_loc, src_loc, n,
        PER_PAGE=table.per_page, ALIGNED=table.aligned, WORD=table.word,
        BLOCK_N=block_n, BLOCK=block,
        num_warps=max(
            launch.num_warps, min(16, block_n * block * table.word // (_BYTES_PER_LANE * shapes.warp))
        ),
    )  # fmt: skip


def move_rows(
    buffers: Sequence[Rows],
    tgt_loc: torch.Tensor,
    src_loc: torch.Tensor,
    *,
    shapes: LaunchShapes | None = None,
) -> None:
    """`move` for buffers that are moved once; a pool keeps its table. At least one buffer and one row."""
    move(BufferTable(buffers), tgt_loc, src_loc, shapes=shapes)
