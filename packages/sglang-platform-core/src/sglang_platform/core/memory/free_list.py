"""The free ids of an allocator, in one array that is allocated once.

Ids run from 1 to `capacity`; id 0 is the padding slot (or page) and never enters. The array holds two stacks
that grow towards each other::

    0         staged                 head              capacity
    | staged ids  |  (ids in use: stale)  |   free ids    |

Taking `n` ids moves `head` up by `n`; giving `n` back writes them below `head`. Both touch `n` entries,
whatever the capacity. Staged ids are free too, but are handed out only after `merge_sorted()`: an allocator
that wants ascending ids stages what is freed and sorts when it runs short.

On the CPU the array is numpy's, because a slice there costs a tenth of a torch slice. On any other device it
is a tensor, and nothing here waits for the device. `Ids` below stands for the one or the other.
"""

from __future__ import annotations

import weakref
from collections import Counter
from typing import Any, TypeAlias

import numpy as np
import torch

from sglang_platform.core.errors import PlatformError

__all__ = ["CheckedFreeList", "FreeList", "Ids", "SavedFreeList", "as_ids", "as_tensor"]

Ids: TypeAlias = Any  # numpy.ndarray[int64] on the CPU, torch.Tensor elsewhere


def as_ids(tensor: torch.Tensor, like: Ids) -> Ids:
    """`tensor` as ids of the type and on the device of the free list `like`."""
    if isinstance(like, np.ndarray):
        return tensor.numpy()
    return tensor.to(like.device, non_blocking=True)


def as_tensor(ids: Ids) -> torch.Tensor:
    """A tensor over the same memory."""
    return torch.from_numpy(ids) if isinstance(ids, np.ndarray) else ids


class SavedFreeList:
    """What `FreeList.save()` returns: the two stack heights, and the ids once they had to be copied."""

    __slots__ = ("__weakref__", "_free_ids", "_head", "_owner", "_staged", "_staged_ids")

    def __init__(self, owner: FreeList) -> None:
        self._owner = owner
        self._head = owner.head
        self._staged = owner.staged
        self._free_ids: Ids = None
        self._staged_ids: Ids = None


class FreeList:
    """The two stacks in one array; see the module. `head` and `staged` are plain integers: reading them never waits for
    a device."""

    def __init__(self, capacity: int, device: torch.device, *, use_numpy: bool = True) -> None:
        """`use_numpy` matters on the CPU only: False keeps the ids in a tensor there too."""
        self.capacity = capacity
        self.on_host = use_numpy and device.type == "cpu"
        ids = torch.empty(capacity, dtype=torch.int64, device=device)
        self.ids: Ids = ids.numpy() if self.on_host else ids
        self.head = 0
        self.staged = 0
        self._saved: list[weakref.ref[SavedFreeList]] = []
        self.reset()

    @property
    def count(self) -> int:
        """How many ids can be taken without a merge."""
        return self.capacity - self.head

    def reset(self) -> None:
        """Everything free, ascending."""
        self._keep_saved()
        if self.on_host:
            self.ids[:] = np.arange(1, self.capacity + 1)
        else:
            torch.arange(1, self.capacity + 1, out=self.ids)
        self.head = self.staged = 0

    def peek(self, n: int) -> Ids:
        """The next `n` ids (n <= count), not yet taken; a view, valid until something is given back."""
        return self.ids[self.head : self.head + n]

    def drop(self, n: int) -> None:
        """Take the `n` ids that `peek(n)` showed."""
        self.head += n

    def put(self, ids: Ids) -> None:
        """Give ids back; they are the next to be taken."""
        at = self.head - len(ids)
        if at < self.staged:
            raise self._overflow(len(ids))
        if self._saved:
            self._keep_saved()
        self.ids[at : self.head] = ids
        self.head = at

    def stage(self, ids: Ids) -> None:
        """Give ids back, to be handed out only after `merge_sorted()`."""
        end = self.staged + len(ids)
        if end > self.head:
            raise self._overflow(len(ids))
        if self._saved:
            self._keep_saved()
        self.ids[self.staged : end] = ids
        self.staged = end

    def merge_sorted(self) -> None:
        """Make the staged ids takeable and put all free ids in ascending order."""
        if not self.staged:
            return
        self._keep_saved()
        at = self.head - self.staged
        # A copy: the two regions may overlap.
        self.ids[at : self.head] = _copy(self.ids[: self.staged])
        free = self.ids[at:]
        if self.on_host:
            free.sort()
        else:
            free.copy_(torch.sort(free).values)
        self.head, self.staged = at, 0

    def replace(self, free_ids: Ids) -> None:
        """Replace all free, unstaged ids with `free_ids`; the first of them is taken next."""
        at = self.capacity - len(free_ids)
        if at < self.staged:
            raise self._overflow(len(free_ids) - self.count)
        self._keep_saved()
        self.ids[at:] = _copy(free_ids)
        self.head = at

    def free_ids(self) -> Ids:
        """View of the ids that can be taken, next first."""
        return self.ids[self.head :]

    def staged_ids(self) -> Ids:
        """View of the staged ids."""
        return self.ids[: self.staged]

    def save(self) -> SavedFreeList:
        """The present state. Costs nothing by itself: ids are copied only if something is given back while
        the returned object is alive."""
        saved = SavedFreeList(self)
        self._saved = [reference for reference in self._saved if reference() is not None]
        self._saved.append(weakref.ref(saved))
        return saved

    def restore(self, saved: SavedFreeList) -> None:
        """Return to a saved state; a state can be restored more than once.

        Raises PlatformError for a state of another list (the allocator was resized in between).
        """
        if saved._owner is not self:
            raise PlatformError(
                "this backup cannot be restored",
                why="it was taken from another allocator, or before this one was resized",
                fix="restore a state that backup_state() of the same allocator returned",
            )
        if saved._free_ids is not None:
            self._keep_saved()
            self.ids[saved._head :] = saved._free_ids
            self.ids[: saved._staged] = saved._staged_ids
            self._saved.append(weakref.ref(saved))
            saved._free_ids = saved._staged_ids = None
        self.head, self.staged = saved._head, saved._staged

    def _keep_saved(self) -> None:
        # Called before ids are overwritten: saved states that are still alive get a copy of the ids.
        for reference in self._saved:
            saved = reference()
            if saved is not None:
                saved._free_ids = _copy(self.ids[saved._head :])
                saved._staged_ids = _copy(self.ids[: saved._staged])
        self._saved.clear()

    def _overflow(self, n: int) -> PlatformError:
        return PlatformError(
            f"{n} pages were freed, but only {self.head - self.staged} are in use",
            why="some page is freed twice, or was never allocated here",
            fix="set SGLANG_PLATFORM_DEBUG_MEMORY=1 to have the first wrong free named",
        )


class CheckedFreeList(FreeList):
    """A free list that checks that every freed id is in use. Waits for the device at each call."""

    def __init__(self, capacity: int, device: torch.device, *, use_numpy: bool = True) -> None:
        super().__init__(capacity, device, use_numpy=use_numpy)
        self._mark_all()

    def _mark_all(self) -> None:
        shape = self.capacity + 1
        self._is_free: Ids = (
            np.zeros(shape, np.bool_)
            if self.on_host
            else torch.zeros(shape, dtype=torch.bool, device=self.ids.device)
        )
        self._is_free[self.free_ids()] = True
        self._is_free[self.staged_ids()] = True

    def reset(self) -> None:
        super().reset()
        self._mark_all()

    def drop(self, n: int) -> None:
        self._is_free[self.peek(n)] = False
        super().drop(n)

    def put(self, ids: Ids) -> None:
        self._check(ids)
        super().put(ids)
        self._is_free[ids] = True

    def stage(self, ids: Ids) -> None:
        self._check(ids)
        super().stage(ids)
        self._is_free[ids] = True

    def replace(self, free_ids: Ids) -> None:
        super().replace(free_ids)
        self._mark_all()

    def restore(self, saved: SavedFreeList) -> None:
        super().restore(saved)
        self._mark_all()

    def _check(self, ids: Ids) -> None:
        listed = ids.tolist()
        outside = sorted({i for i in listed if not 1 <= i <= self.capacity})
        if outside:
            raise PlatformError(
                f"freed pages that this allocator never hands out: {_some(outside)}",
                why=f"it owns pages 1 to {self.capacity}; page 0 is reserved for padding",
                fix="free only what alloc, alloc_extend and alloc_decode returned",
            )
        free_already = self._is_free[ids].tolist()
        twice = sorted({i for i, is_free in zip(listed, free_already, strict=True) if is_free})
        twice += [i for i, times in Counter(listed).items() if times > 1 and i not in twice]
        if twice:
            raise PlatformError(
                f"pages freed twice: {_some(twice)}",
                why="they are free already, or stand more than once in this call",
                fix="free every page once, when its last user is done",
            )


def _copy(ids: Ids) -> Ids:
    return ids.copy() if isinstance(ids, np.ndarray) else ids.clone()


def _some(values: list[int]) -> str:
    shown = ", ".join(str(v) for v in values[:8])
    return shown if len(values) <= 8 else f"{shown} and {len(values) - 8} more"
