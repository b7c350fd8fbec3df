"""Rows of a batch and the state slots they own, written back without a branch.

A graph replays the same operators for any number of real rows; the others are padding, with a negative slot. A padded
row repeats the first real row: it computes the same values and writes them to the same place, so that no slot of
another request is touched and the order of the writes does not matter.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

__all__ = ["OwnedSlots", "owned_slots"]


class OwnedSlots(NamedTuple):
    rows: torch.Tensor
    """int64 [B]: the row whose inputs each row computes with."""

    slots: torch.Tensor
    """int64 [B]: the slot that each row reads and writes."""

    real: torch.Tensor
    """bool [B]: the rows that are no padding."""

    def write(self, states: torch.Tensor, before: torch.Tensor, after: torch.Tensor) -> None:
        """Put `after` [B, ...] into the slots of `states` [S, ...]; if no row is real, the old content stays."""
        writes = self.real[self.rows].reshape(-1, *(1,) * (after.dim() - 1))
        states.index_put_((self.slots,), torch.where(writes, after.to(states.dtype), before.to(states.dtype)))

    def hide_padding(self, out: torch.Tensor) -> torch.Tensor:
        """`out` [B, ...], zero where a row is padding."""
        return torch.where(self.real.reshape(-1, *(1,) * (out.dim() - 1)), out, torch.zeros_like(out))


def owned_slots(slots: torch.Tensor) -> OwnedSlots:
    """What the rows of `slots` (integer [B], negative for padding) read and write. Reads no value on the host."""
    real = slots >= 0
    first = real.to(torch.int32).argmax(dim=0) if slots.numel() else slots.new_zeros((), dtype=torch.int64)
    rows = torch.where(real, torch.arange(slots.shape[0], device=slots.device), first)
    return OwnedSlots(rows, slots.to(torch.int64)[rows].clamp(min=0), real)
