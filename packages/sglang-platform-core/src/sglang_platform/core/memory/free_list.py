"""The free ids of an allocator, in one array that is allocated once.

Ids run from 1 to `capacity`; id 0 is the padding slot (or page) and never enters. The array holds two stacks
that grow towards each other::

    0         staged                 head              capacity
    | staged ids  |  (ids in use: stale)  |   free ids    |

Taking `n` ids moves `head` up by `n`; giving `n` back writes them below `head`. Both touch `n` entries,
whatever the capacity. Staged ids are free too, but are handed out only after `merge_sorted()`: an allocator
that wants ascending ids stages what is freed and sorts when it runs short.

On the CPU the array is numpy's, because a slice there costs a tenth of a torch slice. On any other device it
is a tensor, and nothing here waits for the device, unless in debug mode: `page_marks` says what is checked where.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from sglang_platform.core.errors import PlatformError
from sglang_platform.core.memory.ids import Ids
from sglang_platform.core.memory.page_marks import LateMarks, page_marks

__all__ = ["FreeList", "SavedFreeList"]


class SavedFreeList(NamedTuple):
    """What `FreeList.save()` returns: copies of the ids in both stacks."""

    owner: FreeList
    free_ids: Ids
    staged_ids: Ids


class FreeList:
    """The two stacks in one array; see the module. `head` and `staged` are plain integers: reading them never waits for
    a device."""

    def __init__(
        self, capacity: int, device: torch.device, *, use_numpy: bool = True, debug: bool = False
    ) -> None:
        """`use_numpy` matters on the CPU only: False keeps the ids in a tensor there too. `debug`: a wrong free
        raises at once on any device, not on the CPU alone."""
        self.capacity = capacity
        self.on_host = use_numpy and device.type == "cpu"
        ids = torch.empty(capacity, dtype=torch.int64, device=device)
        self.ids: Ids = ids.numpy() if self.on_host else ids
        self.head = 0
        self.staged = 0
        self._marks = page_marks(capacity, self.ids, debug=debug)
        # The heights at which late marks have looked at what was given back.
        self._seen_head = self._seen_staged = 0
        self.reset()

    @property
    def count(self) -> int:
        """How many ids can be taken without a merge."""
        return self.capacity - self.head

    def reset(self) -> None:
        """Everything free, ascending."""
        self._look()
        if self.on_host:
            self.ids[:] = np.arange(1, self.capacity + 1)
        else:
            torch.arange(1, self.capacity + 1, out=self.ids)
        self.head = self.staged = 0
        self._mark_all()

    def peek(self, n: int) -> Ids:
        """The next `n` ids (n <= count), not yet taken; a view, valid until something is given back."""
        return self.ids[self.head : self.head + n]

    def drop(self, n: int) -> None:
        """Take the `n` ids that `peek(n)` showed."""
        self._look()
        if self._marks is not None and n:
            self._marks.lend(self.ids[self.head : self.head + n])
        self.head += n
        self._seen_head = self.head

    def put(self, ids: Ids) -> None:
        """Give ids back; they are the next to be taken. Raises PlatformError for ids that are not in use."""
        at = self.head - len(ids)
        self._check(ids)
        self.ids[at : self.head] = ids
        self.head = at

    def stage(self, ids: Ids) -> None:
        """Give ids back, to be handed out only after `merge_sorted()`. Raises as `put`."""
        end = self.staged + len(ids)
        self._check(ids)
        self.ids[self.staged : end] = ids
        self.staged = end

    def merge_sorted(self) -> None:
        """Make the staged ids takeable and put all free ids in ascending order."""
        if not self.staged:
            return
        self._look()
        at = self.head - self.staged
        # A copy: the two regions may overlap.
        self.ids[at : self.head] = _copy(self.ids[: self.staged])
        free = self.ids[at:]
        if self.on_host:
            free.sort()
        else:
            free.copy_(torch.sort(free).values)
        self.head, self.staged = self._seen_head, self._seen_staged = at, 0

    def replace(self, free_ids: Ids) -> None:
        """Replace all free, unstaged ids with `free_ids`; the first of them is taken next."""
        at = self.capacity - len(free_ids)
        if at < self.staged:
            raise self._overflow(len(free_ids) - self.count)
        self._look()
        self.ids[at:] = _copy(free_ids)
        self.head = at
        self._mark_all()

    def free_ids(self) -> Ids:
        """View of the ids that can be taken, next first."""
        return self.ids[self.head :]

    def staged_ids(self) -> Ids:
        """View of the staged ids."""
        return self.ids[: self.staged]

    def save(self) -> SavedFreeList:
        """The present state; a copy of the free ids."""
        return SavedFreeList(self, _copy(self.free_ids()), _copy(self.staged_ids()))

    def restore(self, saved: SavedFreeList) -> None:
        """Return to a saved state; a state can be restored more than once.

        Raises PlatformError for a state of another list (the allocator was resized in between).
        """
        if saved.owner is not self:
            raise PlatformError(
                "this backup cannot be restored",
                why="it was taken from another allocator, or before this one was resized",
                fix="restore a state that backup_state() of the same allocator returned",
            )
        self._look()
        self.head, self.staged = self.capacity - len(saved.free_ids), len(saved.staged_ids)
        self.ids[self.head :] = saved.free_ids
        self.ids[: self.staged] = saved.staged_ids
        self._mark_all()

    def _mark_all(self) -> None:
        if self._marks is not None:
            self._marks.rebuild(self.free_ids(), self.staged_ids())
        self._seen_head, self._seen_staged = self.head, self.staged

    def _look(self) -> None:
        """Before ids are taken or moved: look up what was given back since, where `_check` did not."""
        if isinstance(self._marks, LateMarks):
            if self.head < self._seen_head:
                self._marks.give_back(self.ids[self.head : self._seen_head])
            if self._seen_staged < self.staged:
                self._marks.give_back(self.ids[self._seen_staged : self.staged])
            self._seen_head, self._seen_staged = self.head, self.staged

    def _check(self, ids: Ids) -> None:
        if self._marks is not None and not isinstance(self._marks, LateMarks):
            self._marks.give_back(ids)
        if len(ids) > self.head - self.staged:
            raise self._overflow(len(ids))

    def _overflow(self, n: int) -> PlatformError:
        return PlatformError(
            f"{n} pages were freed, but only {self.head - self.staged} are in use",
            why="some page is freed twice, or was never allocated here",
            fix="set SGLANG_PLATFORM_DEBUG_MEMORY=1 to have the first wrong free named",
        )


def _copy(ids: Ids) -> Ids:
    return ids.copy() if isinstance(ids, np.ndarray) else ids.clone()
