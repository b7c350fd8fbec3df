"""How the cached tokens of a batch are shared out among programs, worked out on the device from the lengths.

Each request is read in parts. With b_r blocks of BLOCK_N visible tokens of request r, and about `wanted` parts in all:

    c = max(least, ceil(sum_r b_r / wanted))        blocks of the largest part
    parts_r = ceil(b_r / c)                         of request r, each of ceil(b_r / parts_r) blocks, the last the rest

No part is longer than c, so one long request among short ones is read by many programs, and requests of one length by
equally many each. The parts are numbered through the batch, request by request; there are fewer than `wanted` plus the
number of requests, so a launch has room for all of them whatever the lengths are, as a captured graph needs.

One launch for all layers of a step works this out (`plan_parts`). A program of a layer then reads three numbers: whose
its part is, and where the parts of this request begin and end.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl

__all__ = ["SplitPlan", "part_of", "parts_within", "plan_kernel", "plan_parts"]

_LANES = 1024
"""Requests processed together."""


class SplitPlan(NamedTuple):
    """owner int32 [room]: the request of each part, the number of requests where there is none. first int32 [B + 1]:
    the number of each request's first part, and of all parts."""

    owner: torch.Tensor
    first: torch.Tensor


@triton.jit
def _blocks(len_ptr, request, batch, window, BLOCK_N: tl.constexpr):
    length = tl.load(len_ptr + request, mask=request < batch, other=0).to(tl.int32)
    return tl.cdiv(tl.minimum(length, window + 1) if window >= 0 else length, BLOCK_N)


@triton.jit(do_not_specialize=["batch", "wanted", "least", "window", "room"])
def plan_kernel(
    len_ptr, owner_ptr, first_ptr, batch, wanted, least, window, room, BLOCK_N: tl.constexpr, LANES: tl.constexpr
):  # fmt: skip
    """Grid (B). Each request finds its own parts."""
    request = tl.program_id(0)
    total = tl.zeros((LANES,), tl.int32)
    for at in range(0, batch, LANES):
        total += _blocks(len_ptr, at + tl.arange(0, LANES), batch, window, BLOCK_N)
    largest = tl.maximum(tl.cdiv(tl.sum(total, 0), wanted), least)
    before = 0
    for at in range(0, request, LANES):
        lane = at + tl.arange(0, LANES)
        parts = tl.cdiv(_blocks(len_ptr, lane, batch, window, BLOCK_N), largest)
        before += tl.sum(tl.where(lane < request, parts, 0), 0)
    end = before + tl.cdiv(_blocks(len_ptr, request, batch, window, BLOCK_N), largest)
    tl.store(first_ptr + request, before)
    for at in range(before, end, LANES):
        number = at + tl.arange(0, LANES)
        tl.store(owner_ptr + number, request, mask=number < end)
    if request == batch - 1:
        tl.store(first_ptr + batch, end)
        for at in range(end, room, LANES):
            number = at + tl.arange(0, LANES)
            tl.store(owner_ptr + number, batch, mask=number < room)


def plan_parts(
    seq_lens: torch.Tensor, *, wanted: int, least: int, window: int, block_n: int, lanes: int = _LANES
) -> SplitPlan:
    """The parts of a batch of seq_lens int [B], about `wanted` of them, each of `least` blocks or more.

    window: how many earlier positions are seen, -1 for all. The plan has room for wanted + B - 1 parts.
    """
    batch = seq_lens.shape[0]
    room = wanted + batch - 1
    # Two tensors: both begin at an aligned address, whatever the batch is, so one machine code serves.
    owner = torch.empty(room, dtype=torch.int32, device=seq_lens.device)
    first = torch.empty(batch + 1, dtype=torch.int32, device=seq_lens.device)
    plan_kernel[(batch,)](
        seq_lens, owner, first, batch, wanted, least, window, room, BLOCK_N=block_n, LANES=lanes, num_warps=4
    )
    return SplitPlan(owner, first)


@triton.jit
def part_of(number, owner_ptr, first_ptr, batch):
    """Part `number` of the batch: its request (`batch` where there is no such part), which part of that it is, and how
    many that has."""
    request = tl.load(owner_ptr + number)
    held = tl.minimum(request, batch - 1)
    first = tl.load(first_ptr + held)
    return request, number - first, tl.load(first_ptr + held + 1) - first


@triton.jit
def parts_within(length, first, part, parts, BLOCK_N: tl.constexpr):
    """The tokens [start, end) of part `part` of `parts` of those from `first` on."""
    share = tl.cdiv(tl.cdiv(length - first, BLOCK_N), parts) * BLOCK_N
    start = first + part * share
    return start, tl.minimum(start + share, length)
