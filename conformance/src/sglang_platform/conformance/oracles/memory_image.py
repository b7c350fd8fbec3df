"""What every byte of a pool's buffers must be, after any series of stores and moves.

The image starts from poison: random bytes that the check has written into the real buffers as well. Each operation is
applied to both. A byte that differs afterwards was lost, misplaced, or written where nothing was to be written.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Difference", "MemoryImage"]

Bytes = npt.NDArray[np.uint8]


class Difference(NamedTuple):
    """Where a buffer is not what it must be. `slots` are all that differ, ascending; `byte` is the first wrong one
    in the first of them. `looks_like` names a slot of the image that holds what was found there, if one does."""

    buffer: str
    slots: list[int]
    byte: int
    expected: int
    found: int
    still_poison: bool
    """Nothing was written there, and something had to be."""

    not_to_be_written: bool
    looks_like: str | None


class MemoryImage:
    """Buffers by name, each uint8 [slots, bytes per slot]."""

    def __init__(self, shapes: dict[str, tuple[int, int]], seed: int) -> None:
        generator = np.random.default_rng(seed)
        self.poison: dict[str, Bytes] = {
            name: generator.integers(0, 256, shape, dtype=np.uint8) for name, shape in shapes.items()
        }
        self.expected: dict[str, Bytes] = {name: poison.copy() for name, poison in self.poison.items()}

    def store(self, name: str, slots: list[int], rows: Bytes) -> None:
        """Row i goes to slot slots[i]; slots are distinct."""
        if slots:
            self.expected[name][slots] = rows

    def move(self, targets: list[int], sources: list[int]) -> None:
        """In every buffer slot targets[i] becomes what sources[i] was, all read before one is written."""
        for rows in self.expected.values():
            if targets:
                rows[targets] = rows[sources].copy()

    def read(self, name: str, slots: list[int]) -> Bytes:
        """A copy of what the slots must hold."""
        return self.expected[name][slots].copy()

    def difference(self, name: str, found: Bytes) -> Difference | None:
        """The first buffer row that is not as it must be, or None."""
        expected = self.expected[name]
        if np.array_equal(expected, found):
            return None
        wrong = np.flatnonzero((expected != found).any(axis=1))
        slot = int(wrong[0])
        byte = int(np.flatnonzero(expected[slot] != found[slot])[0])
        return Difference(
            name,
            [int(s) for s in wrong],
            byte,
            int(expected[slot, byte]),
            int(found[slot, byte]),
            bool(np.array_equal(found[slot], self.poison[name][slot])),
            bool(np.array_equal(expected[slot], self.poison[name][slot])),
            self._origin(found[slot], name, slot),
        )

    def _origin(self, row: Bytes, name: str, slot: int) -> str | None:
        for other, rows in self.expected.items():
            if rows.shape[1] != row.shape[0]:
                continue
            same = np.flatnonzero((rows == row).all(axis=1))
            if len(same) and (other, int(same[0])) != (name, slot):
                return f"{other}, slot {int(same[0])}"
        return None
