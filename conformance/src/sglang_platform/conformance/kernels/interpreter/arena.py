"""A launch's tensors, each memory block on its own far from the others.

An access beyond a tensor would otherwise often land in another tensor of the launch and look like a good one. A tensor
owns the elements that its shape and strides reach, not the gaps between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np
import torch

__all__ = ["Arena", "conflicts_allowed", "reachable"]

# Room on either side, more than the reach of a wrong index on the shapes of a check. Untouched memory costs nothing.
_GAP = 1 << 26

_reachable: list[torch.Tensor] = []
_conflicts: list[torch.Tensor] = []


@contextmanager
def reachable(*tensors: torch.Tensor) -> Iterator[None]:
    """Tensors that kernels launched inside reach through a table of addresses rather than an argument."""
    _reachable.extend(tensors)
    try:
        yield
    finally:
        del _reachable[len(_reachable) - len(tensors) :]


@contextmanager
def conflicts_allowed(*tensors: torch.Tensor) -> Iterator[None]:
    """Memory where several programs may store, such as the padding slot's rows: its content is never read."""
    _conflicts.extend(tensors)
    try:
        yield
    finally:
        del _conflicts[len(_conflicts) - len(tensors) :]


class Arena:
    """Copies of memory blocks, and which of their bytes belong to a tensor of the launch."""

    def __init__(self) -> None:
        self._moved: dict[int, tuple[torch.UntypedStorage, np.ndarray]] = {}
        self._owned: dict[int, np.ndarray] = {}
        self._names: dict[int, list[str]] = {}
        for tensor in _reachable:
            self._own(tensor, tensor.untyped_storage().data_ptr(), "a tensor behind a table of addresses")

    def move(self, tensor: torch.Tensor, name: str) -> torch.Tensor:
        """`tensor` in its own place, aligned as it was."""
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        if address not in self._moved:
            size = storage.nbytes()
            room = np.empty(size + 2 * _GAP, dtype=np.uint8)
            start = _GAP + (address - room.ctypes.data - _GAP) % 256
            place = room[start : start + size]
            if size:
                place[:] = torch.empty(0, dtype=torch.uint8).set_(storage).numpy()
            self._moved[address] = (torch.from_numpy(place).untyped_storage(), place)
        moved_storage, place = self._moved[address]
        moved = tensor.new_empty(0).set_(
            moved_storage,
            tensor.storage_offset() + (place.ctypes.data - moved_storage.data_ptr()) // tensor.element_size(),
            tensor.size(),
            tensor.stride(),
        )
        self._own(moved, place.ctypes.data, name, place.size)
        return moved

    def _own(self, tensor: torch.Tensor, base: int, name: str, size: int | None = None) -> None:
        size = tensor.untyped_storage().nbytes() if size is None else size
        owned = self._owned.setdefault(base, np.zeros(size, dtype=np.bool_))
        self._names.setdefault(base, []).append(f"{name} {tuple(tensor.shape)}")
        if tensor.numel():
            start = tensor.data_ptr() - base
            item = tensor.element_size()
            strides = [stride * item for stride in tensor.stride()]
            view = np.lib.stride_tricks.as_strided(
                owned[start:], shape=(*tensor.shape, item), strides=(*strides, 1)
            )
            view[...] = True

    def copy_back(self, tensors: Iterable[torch.Tensor]) -> None:
        """Puts what the kernel left in the copies into the tensors' own memory."""
        done: set[int] = set()
        for tensor in tensors:
            storage = tensor.untyped_storage()
            address = storage.data_ptr()
            if address in done or address not in self._moved or not storage.nbytes():
                continue
            done.add(address)
            target = torch.empty(0, dtype=torch.uint8).set_(storage).numpy()
            target[:] = self._moved[address][1]

    def outside(self, addresses: np.ndarray, item: int) -> np.ndarray:
        """Which of `addresses` (uint64, of elements of `item` bytes) are not wholly a tensor's."""
        good = np.zeros(addresses.shape, dtype=np.bool_)
        for base, owned in self._owned.items():
            offset = addresses.astype(np.int64) - base
            inside = (offset >= 0) & (offset + item <= owned.size)
            if inside.any():
                at = np.where(inside, offset, 0)
                good |= inside & owned[at] & owned[at + item - 1]
        return ~good

    def nearest(self, address: int) -> str:
        """Words for where a bad address lies."""
        if not self._owned:
            return "the launch has no tensors"
        base = min(self._owned, key=lambda b: min(abs(address - b), abs(address - b - self._owned[b].size)))
        offset, size = address - base, self._owned[base].size
        names = ", ".join(dict.fromkeys(self._names[base]))
        if offset < 0:
            return f"{-offset} bytes before the memory of {names}"
        if offset >= size:
            return f"{offset - size} bytes beyond the memory of {names}"
        return f"in the memory of {names}, at byte {offset}, between the elements of the view"

    def may_conflict(self, addresses: np.ndarray) -> np.ndarray:
        """Which of `addresses` lie where several programs may store."""
        allowed = np.zeros(addresses.shape, dtype=np.bool_)
        for tensor in _conflicts:
            if not tensor.numel():
                continue
            base = tensor.untyped_storage().data_ptr()
            start = tensor.data_ptr() - base
            if base in self._moved:
                base = self._moved[base][1].ctypes.data
            span = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)) + 1
            low = base + start
            allowed |= (addresses >= low) & (addresses < low + span * tensor.element_size())
        return allowed
