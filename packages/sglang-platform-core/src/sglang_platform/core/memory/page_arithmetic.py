"""Which slots an extend and a decode step get, on the CPU with numpy and on any device with torch.

With page size P, a request that grows from `prefix` to `seq` tokens uses first the rest of its last page,
then new pages in order. Its new slots are therefore runs of consecutive numbers: one run that continues at
`last_loc + 1` (the tail; empty when the prefix ends on a page boundary), then one run per new page. With

    pages(n) = ceil(n / P)
    tail     = min(seq, pages(prefix) * P) - prefix
    new      = pages(seq) - pages(prefix)
    last run = seq - (pages(seq) - 1) * P        (when new > 0; all runs before it have length P)

the slots of the whole batch are `repeat(run_value - run_start, run_length) + arange(total)`.

Nothing here reads a device value on the host: output sizes come from the arguments' shapes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sglang_platform.core.errors import PlatformError

__all__ = [
    "count_decode_pages",
    "count_extend_pages",
    "decode_slots_on_device",
    "extend_slots_on_device",
    "extend_slots_on_host",
    "pages_of_slots_on_host",
]

IntArray = npt.NDArray[np.int64]


def count_extend_pages(prefix_lens: IntArray, seq_lens: IntArray, page_size: int) -> int:
    """New pages that a batch needs to grow from `prefix_lens` to `seq_lens`, both [B]."""
    # Floor division of negated numbers is ceil division.
    return int(np.sum(-prefix_lens // page_size - -seq_lens // page_size))


def count_decode_pages(seq_lens: IntArray, page_size: int) -> int:
    """New pages that one token per request needs; `seq_lens` [B] counts that token."""
    return len(seq_lens) - int(np.count_nonzero((seq_lens - 1) % page_size))


def extend_slots_on_host(
    prefix_lens: IntArray,
    seq_lens: IntArray,
    last_loc: IntArray,
    free_pages: IntArray,
    total: int,
    page_size: int,
) -> IntArray:
    """The slots [total] of a batch; `free_pages` holds exactly its new pages.

    Raises PlatformError when `total` or the number of pages does not match the lengths.
    """
    if len(prefix_lens) == 1:
        return _extend_one_on_host(int(last_loc[0]), free_pages, total, int(prefix_lens[0]), page_size)
    pages_before = -(-prefix_lens // page_size)
    pages_after = -(-seq_lens // page_size)
    new = pages_after - pages_before
    batch, pages = len(new), len(free_pages)

    tail_run = _numbers(batch).copy()
    tail_run[1:] += np.cumsum(new[:-1])
    if tail_run[-1] + new[-1] + 1 != batch + pages:
        raise _mismatch(total, pages)
    lengths = np.full(batch + pages, page_size)
    lengths[tail_run + new] = seq_lens - (pages_after - 1) * page_size
    # Written after the last runs: for a request without new pages the tail has the same index and must win.
    lengths[tail_run] = np.minimum(seq_lens, pages_before * page_size) - prefix_lens

    values = np.empty(batch + pages, np.int64)
    is_page = np.ones(batch + pages, np.bool_)
    is_page[tail_run] = False
    values[is_page] = free_pages * page_size
    values[tail_run] = last_loc + 1

    starts = np.cumsum(lengths)
    starts -= lengths
    values -= starts
    slots = np.repeat(values, lengths)
    if len(slots) != total:
        raise _mismatch(total, pages)
    slots += _numbers(total)
    return slots


def _extend_one_on_host(
    last_loc: int, free_pages: IntArray, total: int, prefix_len: int, page_size: int
) -> IntArray:
    tail = min(total, -prefix_len % page_size)
    slots = np.empty(total, np.int64)
    slots[:tail] = _numbers(tail) + (last_loc + 1)
    in_pages = (free_pages[:, None] * page_size + _numbers(page_size)).reshape(-1)
    if not 0 <= len(in_pages) - (total - tail) < page_size:
        raise _mismatch(total, len(free_pages))
    slots[tail:] = in_pages[: total - tail]
    return slots


def _mismatch(total: int, pages: int) -> PlatformError:
    return PlatformError(
        f"an extend of {total} tokens into {pages} pages contradicts its prefix_lens and seq_lens",
        why="extend_num_tokens is the sum of seq_lens - prefix_lens; num_new_pages counts the pages it opens",
        fix="pass both as the scheduler counts them; leave num_new_pages out when in doubt",
    )


def extend_slots_on_device(
    prefix_lens: torch.Tensor,
    seq_lens: torch.Tensor,
    last_loc: torch.Tensor,
    free_pages: torch.Tensor,
    out: torch.Tensor,
    page_size: int,
) -> None:
    """Fill `out` [total] with what `extend_slots_on_host` returns, on any device, without waiting for it."""
    batch, pages, total = prefix_lens.numel(), free_pages.numel(), out.numel()
    count: dict[str, Any] = {"dtype": torch.int64, "device": out.device}
    prefix, seq = prefix_lens.long(), seq_lens.long()
    pages_before = (prefix + (page_size - 1)) // page_size
    pages_after = (seq + (page_size - 1)) // page_size
    new = pages_after - pages_before
    request = torch.arange(batch, **count)
    tail_run = request + torch.cumsum(new, 0) - new

    lengths = torch.full((batch + pages,), page_size, **count)
    lengths[tail_run + new] = seq - (pages_after - 1) * page_size
    lengths[tail_run] = torch.minimum(seq, pages_before * page_size) - prefix

    values = torch.empty(batch + pages, **count)
    owner = torch.repeat_interleave(request, new, output_size=pages)
    values[torch.arange(pages, **count) + owner + 1] = free_pages * page_size
    values[tail_run] = last_loc.long() + 1

    values -= torch.cumsum(lengths, 0) - lengths
    runs = torch.repeat_interleave(values, lengths, output_size=total)
    torch.add(runs, torch.arange(total, **count), out=out)


def decode_slots_on_device(
    seq_lens: torch.Tensor,
    last_loc: torch.Tensor,
    free_pages: torch.Tensor,
    out: torch.Tensor,
    page_size: int,
) -> None:
    """Fill `out` [B]: the slot after `last_loc`, or the start of a new page where the last page is full.

    On tensors of any device, without waiting for it.
    """
    torch.add(last_loc, 1, out=out)
    if free_pages.numel() == 0:
        return
    starts_page = (seq_lens - 1) % page_size == 0
    # Requests that take no page look a page up too; the value is not used.
    rank = (torch.cumsum(starts_page, 0) - 1).clamp_(min=0)
    torch.where(starts_page, free_pages[rank] * page_size, out.clone(), out=out)


def pages_of_slots_on_host(slots: IntArray, page_size: int) -> IntArray:
    """The distinct pages of `slots` [n > 0], ascending."""
    pages = slots // page_size
    # Slots mostly come in runs of one page: drop repeats among neighbours before sorting what is left.
    first = np.empty(len(pages), np.bool_)
    first[0] = True
    np.not_equal(pages[1:], pages[:-1], out=first[1:])
    pages = pages[first]
    pages.sort()
    repeats = pages[1:] == pages[:-1]
    return np.delete(pages, np.flatnonzero(repeats)) if np.count_nonzero(repeats) else pages


_counted = np.arange(1024)


def _numbers(n: int) -> IntArray:
    """0 to n - 1, read-only. Kept between calls: at 100k tokens a fresh array costs more than the
    arithmetic."""
    global _counted
    if n > len(_counted):
        _counted = np.arange(2 * n)
        _counted.flags.writeable = False
    return _counted[:n]
