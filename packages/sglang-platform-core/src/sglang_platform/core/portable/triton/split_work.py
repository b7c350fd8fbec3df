"""How the cached tokens of a batch are shared out among programs, worked out on the device from the lengths.

Each request is read in parts. With b_r blocks of BLOCK_N visible tokens of request r, and about `wanted` parts in all:

    c = max(least, ceil(sum_r b_r / wanted))        blocks of the largest part
    parts_r = ceil(b_r / c)                         of request r, each of ceil(b_r / parts_r) blocks, the last the rest

No part is longer than c, so one long request among short ones is read by many programs, and requests of one length by
equally many each. The parts are numbered through the batch, request by request; there are fewer than `wanted` plus the
number of requests, so a launch has room for all of them whatever the lengths are, as a captured graph needs.

Every program works this out for itself: it reads the lengths, which lie in the cache, and no other launch has to run
first.
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["SPLIT_LANES", "part_of", "parts_before", "parts_within"]

SPLIT_LANES = 32
"""Requests processed together: one per lane of an NVIDIA warp. Wider sums go through shared memory, and the compiler
then treats the part's bounds as different in every thread: decode of MLA with 128 heads spills."""


@triton.jit
def _blocks(len_ptr, request, batch, window, BLOCK_N: tl.constexpr):
    length = tl.load(len_ptr + request, mask=request < batch, other=0).to(tl.int32)
    return tl.cdiv(tl.minimum(length, window + 1) if window >= 0 else length, BLOCK_N)


@triton.jit
def _largest(len_ptr, batch, wanted, least, window, BLOCK_N: tl.constexpr, LANES: tl.constexpr):
    """Blocks of the largest part (c above)."""
    total = tl.zeros((LANES,), tl.int32)
    for at in range(0, batch, LANES):
        total += _blocks(len_ptr, at + tl.arange(0, LANES), batch, window, BLOCK_N)
    return tl.maximum(tl.cdiv(tl.sum(total, 0), wanted), least)


@triton.jit
def part_of(number, len_ptr, batch, wanted, least, window, BLOCK_N: tl.constexpr, LANES: tl.constexpr):
    """Part `number` of the batch: its request (`batch` or more where there is no such part), which part of that it is,
    and how many that has."""
    largest = _largest(len_ptr, batch, wanted, least, window, BLOCK_N, LANES)
    request = 0
    before = 0
    first = 0
    last = 0
    for at in range(0, batch, LANES):
        lane = at + tl.arange(0, LANES)
        parts = tl.cdiv(_blocks(len_ptr, lane, batch, window, BLOCK_N), largest)
        ends = before + tl.cumsum(parts, 0)
        passed = ends <= number
        request += tl.sum(passed.to(tl.int32), 0)
        first = tl.maximum(first, tl.max(tl.where(passed, ends, 0), 0))
        last = tl.maximum(last, tl.max(tl.where((ends > number) & (ends - parts <= number), ends, 0), 0))
        before += tl.sum(parts, 0)
    return request, number - first, last - first


@triton.jit
def parts_before(request, len_ptr, batch, wanted, least, window, BLOCK_N: tl.constexpr, LANES: tl.constexpr):
    """The number of the first part of `request`, and how many it has."""
    largest = _largest(len_ptr, batch, wanted, least, window, BLOCK_N, LANES)
    before = 0
    for at in range(0, request, LANES):
        lane = at + tl.arange(0, LANES)
        parts = tl.cdiv(_blocks(len_ptr, lane, batch, window, BLOCK_N), largest)
        before += tl.sum(tl.where(lane < request, parts, 0), 0)
    return before, tl.cdiv(_blocks(len_ptr, request, batch, window, BLOCK_N), largest)


@triton.jit
def parts_within(length, first, part, parts, BLOCK_N: tl.constexpr):
    """The tokens [start, end) of part `part` of `parts` of those from `first` on."""
    share = tl.cdiv(tl.cdiv(length - first, BLOCK_N), parts) * BLOCK_N
    start = first + part * share
    return start, tl.minimum(start + share, length)
