"""Slots of draft tokens in the token table, for batches whose requests take different numbers of them.

The table `req_to_token` int [requests, positions] names each position's slot. The caller sets the size of outputs;
entries after the last request's part are left unchanged, so no size is read back from the device.
"""

from __future__ import annotations

import torch

__all__ = ["pack_accepted", "pack_front", "read_slots", "read_uniform_slots", "write_slots"]


def read_slots(
    table: torch.Tensor, rows: torch.Tensor, starts: torch.Tensor, ends: torch.Tensor, out: torch.Tensor
) -> None:
    """Write into `out` the slots of positions `starts[i]` to `ends[i]` of each request, one request after the other."""
    request, position, valid = _places(starts, ends, out.numel())
    slots = table[rows[request].long(), position.clamp(max=table.shape[1] - 1)]
    out.copy_(torch.where(valid, slots.to(out.dtype), out.flatten()).view_as(out))


def read_uniform_slots(
    table: torch.Tensor, rows: torch.Tensor, starts: torch.Tensor, count: int
) -> torch.Tensor:
    """The slots of `count` positions from `starts[i]` on, int64 [B * count]."""
    positions = starts.long()[:, None] + torch.arange(count, device=starts.device)
    return table[rows.long()[:, None], positions].long().flatten()


def write_slots(
    table: torch.Tensor, rows: torch.Tensor, starts: torch.Tensor, ends: torch.Tensor, slots: torch.Tensor
) -> None:
    """The reverse of `read_slots`: put `slots`, one request after the other, into the table. Every slot is used."""
    request, position, _ = _places(starts, ends, slots.numel())
    table[rows[request].long(), position] = slots.flatten().to(table.dtype)


def pack_front(counts: torch.Tensor, windows: torch.Tensor, out: torch.Tensor) -> None:
    """The first `counts[i]` entries of row i of `windows` [B, n], one row after the other, into `out`."""
    request, place, valid = _places(torch.zeros_like(counts), counts, out.numel())
    taken = windows[request, place.clamp(max=windows.shape[1] - 1)]
    out.copy_(torch.where(valid, taken.to(out.dtype), out.flatten()).view_as(out))


def pack_accepted(accepted: torch.Tensor, slots: torch.Tensor, out: torch.Tensor) -> None:
    """The slots of the nodes that `accepted` names (-1: none), in order and without gaps, into `out`."""
    nodes = accepted.flatten().long()
    valid = nodes >= 0
    target = torch.where(valid, valid.long().cumsum(0) - 1, out.numel())
    kept = torch.cat((out.flatten(), out.new_zeros(1)))
    kept.scatter_(0, target, slots[nodes.clamp(min=0)].to(out.dtype))
    out.copy_(kept[:-1].view_as(out))


def _places(
    starts: torch.Tensor, ends: torch.Tensor, size: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """For each of `size` entries its request, its position there, and whether any request holds it."""
    starts = starts.long()
    counts = ends.long() - starts
    behind = counts.cumsum(0)
    entry = torch.arange(size, device=starts.device)
    request = (entry[:, None] >= behind).sum(-1).clamp(max=starts.shape[0] - 1)
    position = starts[request] + entry - (behind - counts)[request]
    return request, position, entry < behind[-1]
