"""How a program of decode ends: the sink, the sum of weights, the scale of the values, and where its output goes."""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["write_output"]


@triton.jit
def write_output(
    acc, m, total, request, number, head, live_h, values, live_v,
    out_ptr, partial_ptr, lse_ptr, sink_ptr, v_scale_ptr, out_stride_b, out_stride_h,
    GROUP: tl.constexpr, HEAD_BLOCKS: tl.constexpr, DV: tl.constexpr,
    SCALED: tl.constexpr, SINKS: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """acc [BLOCK_H, VALUES], m and total [BLOCK_H] of `softmax_step`. SPLIT: part `number`, which a merge joins."""
    if SINKS and not SPLIT:
        # A sink is one more score whose value is zero; of parts the merge adds it.
        sink = tl.load(sink_ptr + head, mask=live_h, other=0.0).to(tl.float32) * 1.4426950408889634
        m_all = tl.maximum(m, sink)
        r = tl.exp2(m - m_all)
        acc *= r[:, None]
        total = total * r + tl.exp2(sink - m_all)
        m = m_all
    acc = acc / tl.where(total > 0.0, total, 1.0)[:, None]
    if SCALED:
        acc *= tl.load(v_scale_ptr)
    live = live_h[:, None] & live_v[None, :]
    if SPLIT:
        q_heads = tl.num_programs(1) // HEAD_BLOCKS * GROUP
        row = number.to(tl.int64) * q_heads
        tl.store(partial_ptr + row * DV + (head[:, None] * DV + values[None, :]), acc, mask=live)
        tl.store(lse_ptr + row + head, m + tl.log2(total), mask=live_h)
    else:
        at = request.to(tl.int64) * out_stride_b + head[:, None] * out_stride_h + values[None, :]
        tl.store(out_ptr + at, acc.to(out_ptr.dtype.element_ty), mask=live)
