"""The k largest of each row, as slots, for sparse attention.

A float32 is mapped to an unsigned integer of the same order (the sign bit is flipped, for negative numbers all bits).
Its 32 bits are decided eight at a time: a histogram of the next byte among the candidates, from the largest byte down,
says in which byte value the k-th largest lies. After four passes the k-th largest is known exactly, and a last pass
writes all larger ones and, in order of position, as many equal ones as are missing. A row that is not longer than k is
written whole.

Only the set matters to attention; positions are ascending, so the result is the same in every run. A program takes
one row. Source: radix selection, Alabi et al., Fast K-Selection Algorithms for GPUs (2012).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sglang_platform.core.portable.triton.architecture import Launch
from sglang_platform.core.portable.triton.launch import next_power_of_2, portable_shapes

__all__ = ["top_slots", "top_slots_kernel"]


@triton.jit
def _ordered(x):
    """float32 -> uint32 in the same order; both zeros are one."""
    bits = tl.where(x == 0, 0.0, x).to(tl.int32, bitcast=True)
    return tl.where(bits < 0, ~bits, bits ^ -2147483648).to(tl.uint32, bitcast=True)


@triton.jit
def top_slots_kernel(
    logits_ptr, table_ptr, row_ptr, len_ptr, out_ptr, logits_stride, table_stride, out_stride,
    K: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Grid (T). logits float32 [T, width], table int32 [rows, C], out int32 [T, K], filled with -1 before."""
    token = tl.program_id(0).to(tl.int64)
    length = tl.load(len_ptr + token).to(tl.int32)
    table_row = table_ptr + tl.load(row_ptr + token).to(tl.int64) * table_stride
    logits = logits_ptr + token * logits_stride
    out = out_ptr + token * out_stride
    lane = tl.arange(0, BLOCK)
    threshold = tl.zeros((), tl.uint32)
    # How many of those equal to the threshold belong to the K largest.
    wanted = tl.zeros((), tl.int32) + K
    if length > K:
        bins = tl.arange(0, 256)
        for byte in tl.static_range(4):
            counts = tl.zeros((256,), tl.int32)
            for start in range(0, length, BLOCK):
                live = start + lane < length
                key = _ordered(tl.load(logits + start + lane, mask=live, other=0.0))
                candidate = live
                if byte > 0:
                    candidate &= (key >> (32 - 8 * byte)) == (threshold >> (32 - 8 * byte))
                digit = ((key >> (24 - 8 * byte)) & 0xFF).to(tl.int32)
                counts += tl.histogram(digit, 256, mask=candidate)
            # at_least[d]: candidates whose digit is d or more. The k-th largest has the greatest d with enough.
            at_least = tl.sum(counts, 0) - tl.cumsum(counts, 0) + counts
            chosen = tl.max(tl.where(at_least >= wanted, bins, 0), 0)
            wanted -= tl.sum(tl.where(bins > chosen, counts, 0), 0)
            threshold |= chosen.to(tl.uint32) << (24 - 8 * byte)
    larger_seen = tl.zeros((), tl.int32)
    equal_seen = tl.zeros((), tl.int32)
    for start in range(0, length, BLOCK):
        position = start + lane
        live = position < length
        key = _ordered(tl.load(logits + position, mask=live, other=0.0))
        larger = live & ((key > threshold) | (length <= K))
        equal = live & (key == threshold) & (length > K)
        equal_rank = equal_seen + tl.cumsum(equal.to(tl.int32), 0)
        taken = larger | (equal & (equal_rank <= wanted))
        rank = larger_seen + tl.cumsum(taken.to(tl.int32), 0) - 1
        slot = tl.load(table_row + position, mask=taken, other=0)
        tl.store(out + rank, slot, mask=taken)
        larger_seen += tl.sum(taken.to(tl.int32), 0)
        equal_seen += tl.sum(equal.to(tl.int32), 0)


def top_slots(
    logits: torch.Tensor,
    table: torch.Tensor,
    rows: torch.Tensor,
    lengths: torch.Tensor,
    *,
    topk: int,
    launch: Launch | None = None,
) -> torch.Tensor:
    """int32 [T, topk]: the slots of the topk largest of logits[t, :lengths[t]], by position, then -1.

    logits float32 [T, width] without NaN; table int32 [rows, C]; rows int [T]; lengths int [T].
    """
    tokens, width = logits.shape
    out = torch.full((tokens, topk), -1, dtype=torch.int32, device=logits.device)
    if tokens == 0 or width == 0:
        return out
    launch = launch or portable_shapes(logits.device).select
    block = min(launch.elements, max(256, next_power_of_2(width)))
    top_slots_kernel[(tokens,)](
        logits, table, rows, lengths, out, logits.stride(0), table.stride(0), out.stride(0),
        K=topk, BLOCK=block, num_warps=launch.num_warps,
    )  # fmt: skip
    return out
