"""Joining the results of the splits of a sequence.

Split i left its normalised output o_i and L_i = log2 of its sum of 2^s. With a sink s_0 (times log2(e)):

    M = max_i L_i (and s_0),   w_i = 2^(L_i - M),   out = sum_i w_i o_i / (sum_i w_i + 2^(s_0 - M))

Splits without tokens wrote nothing and are not read: how many there are follows from the length, as in the decode
kernel. A program takes one query head of one request; the outputs are float32 and few.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

__all__ = ["merge_kernel", "merge_splits"]


@triton.jit(do_not_specialize=["splits"])
def merge_kernel(
    partial_ptr, lse_ptr, len_ptr, sink_ptr, out_ptr, window, splits, out_stride_b, out_stride_h,
    HEADS: tl.constexpr, DV: tl.constexpr, VALUES: tl.constexpr, SINKS: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Grid (B, HEADS). partial float32 [B, HEADS, splits, DV], lse float32 [B, HEADS, splits], out [B, HEADS, DV]."""
    request = tl.program_id(0)
    head = tl.program_id(1)
    length = tl.load(len_ptr + request).to(tl.int32)
    visible = tl.minimum(length, window + 1) if window >= 0 else length
    share = tl.cdiv(tl.cdiv(visible, splits), BLOCK_N) * BLOCK_N
    used = tl.cdiv(visible, tl.maximum(share, 1))
    values = tl.arange(0, VALUES)
    live = values < DV
    row = (request * HEADS + head).to(tl.int64) * splits

    m = tl.full((1,), float("-inf"), tl.float32)
    total = tl.zeros((1,), tl.float32)
    acc = tl.zeros((VALUES,), tl.float32)
    if SINKS:
        m = tl.zeros((1,), tl.float32) + tl.load(sink_ptr + head).to(tl.float32) * 1.4426950408889634
        total += 1.0
    for split in range(0, used):
        lse = tl.load(lse_ptr + row + split)
        part = tl.load(partial_ptr + (row + split) * DV + values, mask=live, other=0.0)
        m_new = tl.maximum(m, lse)
        r = tl.exp2(m - m_new)
        w = tl.exp2(lse - m_new)
        acc = acc * r + part * w
        total = total * r + w
        m = m_new
    acc = acc / tl.where(total > 0.0, total, 1.0)
    at = request.to(tl.int64) * out_stride_b + head * out_stride_h + values
    tl.store(out_ptr + at, acc.to(out_ptr.dtype.element_ty), mask=live)


def merge_splits(
    partial: torch.Tensor,
    lse: torch.Tensor,
    seq_lens: torch.Tensor,
    out: torch.Tensor,
    *,
    sinks: torch.Tensor | None,
    splits: int,
    block_n: int,
    window: int,
) -> None:
    """Fill `out` [B, Hq, Dv] from `partial` and `lse`, as `decode_kernel` left them."""
    batch, heads, values = out.shape
    merge_kernel[(batch, heads)](
        partial, lse, seq_lens, out if sinks is None else sinks, out, window, splits, out.stride(0), out.stride(1),
        HEADS=heads, DV=values, VALUES=triton.next_power_of_2(values), SINKS=sinks is not None, BLOCK_N=block_n,
        num_warps=max(1, min(4, triton.next_power_of_2(values) // 128)),
    )  # fmt: skip
