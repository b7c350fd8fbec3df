"""The loop of extend over blocks of keys, cached ones by their slots or new ones as they lie.

Without a mask where every query of the block sees every key: nothing is compared, and no load depends on a comparison.
"""

from __future__ import annotations

import triton
import triton.language as tl

from sglang_platform.core.portable.triton.kernels.stored_rows import load_rows
from sglang_platform.core.portable.triton.softmax import capped_scores, softmax_step

__all__ = ["attend"]


@triton.jit
def attend(
    acc, m, total, q, q_rest, k_head, v_head, k_stride, v_stride, table_row, first, end, offset, query,
    scale, cap, window,
    D: tl.constexpr, DV: tl.constexpr, MAIN: tl.constexpr, REST: tl.constexpr, VALUES: tl.constexpr,
    LATENT: tl.constexpr, PAGED: tl.constexpr, MASKED: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr,
    FORMAT: tl.constexpr, IN_HARDWARE: tl.constexpr, CAPPED: tl.constexpr, BLOCK_N: tl.constexpr, AHEAD: tl.constexpr,
):  # fmt: skip
    """Take in keys [first, end): slots by `table_row` where PAGED, rows otherwise. Key j stands at position
    `offset` + j, row r of `acc` at position query[r]. Not MASKED: every row sees every key, and end - first is a
    multiple of BLOCK_N. AHEAD: slots are fetched a block ahead, so that the rows of a block wait for one load of the
    table less."""
    main = tl.arange(0, MAIN)
    values = tl.arange(0, VALUES)
    live_v = values < DV
    if PAGED and AHEAD:
        key = first + tl.arange(0, BLOCK_N)
        ahead = tl.load(table_row + key, mask=key < end, other=0)
    for at in range(first, end, BLOCK_N):
        key = at + tl.arange(0, BLOCK_N)
        live = key < end if MASKED else tl.full((BLOCK_N,), 1, tl.int1)
        if PAGED and AHEAD:
            row = ahead.to(tl.int64)
            later = key + BLOCK_N
            ahead = tl.load(table_row + later, mask=later < end, other=0)
        elif PAGED:
            row = tl.load(table_row + key, mask=live, other=0).to(tl.int64)
        else:
            row = key.to(tl.int64)
        k = load_rows(
            k_head, row[:, None] * k_stride + main[None, :], live[:, None], FORMAT, IN_HARDWARE, q.dtype
        )
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")
        if REST > 0:
            rest = tl.arange(0, REST)
            live_rest = live[:, None] & (rest < D - MAIN)[None, :]
            k_at = row[:, None] * k_stride + MAIN + rest[None, :]
            k_rest = load_rows(k_head, k_at, live_rest, FORMAT, IN_HARDWARE, q.dtype)
            scores = tl.dot(q_rest, tl.trans(k_rest), scores, input_precision="ieee")
        scores = capped_scores(scores, scale, cap, CAPPED)
        if MASKED:
            position = offset + key
            seen = live[None, :]
            if CAUSAL:
                seen = seen & (position[None, :] <= query[:, None])
            if WINDOW:
                seen = seen & (position[None, :] >= query[:, None] - window)
            scores = tl.where(seen, scores, float("-inf"))
        p, r, m, total = softmax_step(scores, m, total)
        if LATENT:
            v = k
        else:
            v_at = row[:, None] * v_stride + values[None, :]
            v = load_rows(v_head, v_at, live[:, None] & live_v[None, :], FORMAT, IN_HARDWARE, q.dtype)
        acc = tl.dot(p.to(q.dtype), v, acc * r[:, None], input_precision="ieee")
    return acc, m, total
