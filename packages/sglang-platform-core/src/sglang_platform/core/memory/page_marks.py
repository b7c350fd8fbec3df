"""Which pages of an allocator are free, one number a page: looked at when pages are given back.

Without it a page that is freed twice is lent to two requests, which write over each other's keys and values. A free
looks its pages up, marks them and reads the marks back, which finds a page that one call names twice; a page is marked
as lent when it is handed out. Nothing depends on the capacity.

On the CPU, and on any device in debug mode, a wrong free raises at once and changes nothing. On another device each
free would wait for all that is queued there. So all that was freed is looked up at once before pages are lent, the
device notes a wrong page in pinned memory, and a later call raises, without a wait. On a device for which torch has no
pinned memory, frees are counted only.

Measured with `benchmarks/allocator.py --against unchecked` on a CPU, at 1M slots and 1 to 512 requests: 2 us of a
request's free of 5 to 8 us, 0.5 us of a decode step's 10 us, under 2% of an extend. On a GPU it is nine small
kernels for each step in which requests have ended, however many; `benchmarks/gpu_rows/memory.py` measures them (page
frees).
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import torch

from sglang_platform.core.errors import PlatformError
from sglang_platform.core.memory.ids import Ids, as_tensor

__all__ = ["LateMarks", "PageMarks", "page_marks"]


def page_marks(capacity: int, like: Ids, *, debug: bool) -> PageMarks | None:
    """The marks for ids such as `like`; None on a device that can neither be waited for nor tell later."""
    if debug or as_tensor(like).device.type == "cpu":
        return PageMarks(capacity, like)
    try:
        told = torch.zeros(1, dtype=torch.int64, pin_memory=True)
        told.copy_(torch.zeros(1, dtype=torch.int64, device=like.device), non_blocking=True)
    except RuntimeError:  # torch has no pinned memory for this device, or it is `meta`
        return None
    return LateMarks(capacity, like, told)


class PageMarks:
    """One mark per page: 0 if lent, else free. Entries 0 and `capacity + 1` stand for all that is never lent."""

    def __init__(self, capacity: int, like: Ids) -> None:
        """`like`: ids of the type and on the device of those to come."""
        self.capacity = capacity
        marks = torch.ones(capacity + 2, dtype=torch.int32, device=as_tensor(like).device)
        self._marks: Ids = marks.numpy() if isinstance(like, np.ndarray) else marks

    def rebuild(self, *free: Ids) -> None:
        """All pages are lent but these."""
        self._marks[1 : self.capacity + 1] = 0
        for ids in free:
            self.restore(ids)

    def lend(self, ids: Ids) -> None:
        self._marks[self._known(ids)] = 0

    def restore(self, ids: Ids) -> None:
        """Mark pages as free again, unchecked."""
        self._marks[self._known(ids)] = 1

    def _known(self, ids: Ids) -> Ids:
        """The entries of these pages; no wrong page was taken back."""
        return ids

    def give_back(self, ids: Ids) -> None:
        """Mark lent pages as free. Raises PlatformError for any other page, with nothing changed."""
        if isinstance(ids, np.ndarray):
            # "clip" leads all that is out of range to the two entries that are never 0.
            if np.count_nonzero(self._marks.take(ids, mode="clip")):
                raise self._refused(ids)
            if len(ids) == 1:
                self._marks[ids] = 1
                return
            order = _order(len(ids))
            self._marks[ids] = order
            repeats = bool(np.count_nonzero(self._marks.take(ids) != order))
        else:
            if bool(self._marks[ids.clamp(0, self.capacity + 1)].any()):
                raise self._refused(ids)
            repeats = bool(self._marked_twice(ids).any())
        if repeats:
            self._marks[ids] = 0
            raise self._refused(ids)

    def _marked_twice(self, ids: torch.Tensor) -> torch.Tensor:
        """Mark pages as free; True for each that the call names again."""
        order = torch.arange(1, ids.numel() + 1, dtype=torch.int32, device=ids.device)
        self._marks[ids] = order
        return torch.ne(self._marks[ids], order)

    def _refused(self, ids: Ids) -> PlatformError:
        listed = ids.tolist()
        outside = sorted({i for i in listed if not 1 <= i <= self.capacity})
        if outside:
            return PlatformError(
                f"freed pages that this allocator never hands out: {_some(outside)}",
                why=f"it owns pages 1 to {self.capacity}; page 0 is reserved for padding",
                fix="free only what alloc, alloc_extend and alloc_decode returned",
            )
        free_already = {i for i in listed if self._marks[i]}
        twice = sorted(free_already | {i for i, times in Counter(listed).items() if times > 1})
        return PlatformError(
            f"pages freed twice: {_some(twice)}",
            why="they are free already, or stand more than once in this call",
            fix="free every page once, when its last user is done",
        )


class LateMarks(PageMarks):
    """Marks on a device that is never waited for: a wrong free raises at a call after the device has found it."""

    def __init__(self, capacity: int, like: Ids, told: torch.Tensor) -> None:
        """`told`: pinned int64 [1], zero."""
        super().__init__(capacity, like)
        self._wrong = torch.zeros(1, dtype=torch.int64, device=like.device)
        self._one = torch.ones(1, dtype=torch.int32, device=like.device)
        self._copy, self._told = told, told.numpy()

    def lend(self, ids: Ids) -> None:
        self._raise_what_is_told()
        self._marks.index_fill_(0, self._known(ids), 0)

    def give_back(self, ids: Ids) -> None:
        """Mark pages as free. Raises PlatformError for a wrong free of an earlier call."""
        self._raise_what_is_told()
        known = self._known(ids)
        # A right page is counted once, from 0. What is never lent is led to the two entries that start at 1.
        self._marks.index_add_(0, known, self._one.expand(known.shape))
        right = self._marks.index_select(0, known) == self._one
        # 1 is added, since page 0 is wrong too.
        wrong = (known + 1).masked_fill_(right, 0).max()
        torch.maximum(self._wrong, wrong, out=self._wrong)
        self._copy.copy_(self._wrong, non_blocking=True)

    def _known(self, ids: Ids) -> Ids:
        """A wrong page stays among the ids until it is told."""
        return ids.clamp(0, self.capacity + 1)

    def _raise_what_is_told(self) -> None:
        if self._told[0]:
            raise PlatformError(
                f"page {self._told[0] - 1} was freed by an earlier call, and was not in use",
                why=f"it was freed twice, or is none of pages 1 to {self.capacity}: two requests may share pages now",
                fix="set SGLANG_PLATFORM_DEBUG_MEMORY=1 to have the call itself raise; free every page once",
            )


def _some(values: list[int]) -> str:
    shown = ", ".join(str(v) for v in values[:8])
    return shown if len(values) <= 8 else f"{shown} and {len(values) - 8} more"


_counted = np.arange(1, 1025, dtype=np.int32)


def _order(count: int) -> Ids:
    """1 to `count`, read-only; kept between calls."""
    global _counted
    if count > len(_counted):
        _counted = np.arange(1, 2 * count + 1, dtype=np.int32)
    return _counted[:count]
