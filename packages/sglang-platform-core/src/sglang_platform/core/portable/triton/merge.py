"""Joining the results of the parts of a sequence.

Part i left its normalised output o_i and L_i = log2 of its sum of 2^s. With a sink s_0 (times log2(e)):

    M = max_i L_i (and s_0),   w_i = 2^(L_i - M),   out = sum_i w_i o_i / (sum_i w_i + 2^(s_0 - M))

How many parts a request has is planned from the lengths (`split_work`). A request without tokens gets zeros. The new
tokens of an extend have equally many parts each. A program takes one query head of one request, and PARTS parts at
once, so that their loads overlap.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sglang_platform.core.portable.triton.launch import next_power_of_2

__all__ = ["merge_equal_parts", "merge_kernel", "merge_parts"]

_ELEMENTS = 4096


@triton.jit(do_not_specialize=["splits"])
def merge_kernel(
    partial_ptr, lse_ptr, first_ptr, sink_ptr, out_ptr, splits, out_stride_b, out_stride_h,
    HEADS: tl.constexpr, DV: tl.constexpr, VALUES: tl.constexpr, SINKS: tl.constexpr, EQUAL: tl.constexpr,
    PARTS: tl.constexpr,
):  # fmt: skip
    """Grid (B, HEADS). partial float32 [parts, HEADS, DV], lse float32 [parts, HEADS], out [B, HEADS, DV]. EQUAL: every
    row of `out` has `splits` parts, some of them without keys (lse -inf); otherwise first int32 [B + 1]: the number of
    each row's first part."""
    request = tl.program_id(0)
    head = tl.program_id(1)
    if EQUAL:
        first, parts = request * splits, splits
    else:
        first = tl.load(first_ptr + request)
        parts = tl.load(first_ptr + request + 1) - first
    values = tl.arange(0, VALUES)
    live = values < DV
    row = first.to(tl.int64) * HEADS + head

    m = tl.full((1,), float("-inf"), tl.float32)
    total = tl.zeros((1,), tl.float32)
    acc = tl.zeros((VALUES,), tl.float32)
    if SINKS:
        m = tl.zeros((1,), tl.float32) + tl.load(sink_ptr + head).to(tl.float32) * 1.4426950408889634
        total += 1.0
    for at in range(0, parts, PARTS):
        part = at + tl.arange(0, PARTS)
        there = part < parts
        place = row + part * HEADS
        lse = tl.load(lse_ptr + place, mask=there, other=float("-inf"))
        rows = partial_ptr + place[:, None] * DV + values[None, :]
        outputs = tl.load(rows, mask=there[:, None] & live[None, :], other=0.0)
        m_new = tl.maximum(m, tl.max(lse, 0))
        m_finite = tl.where(m_new == float("-inf"), 0.0, m_new)
        r = tl.exp2(m - m_finite)
        w = tl.exp2(lse - m_finite)
        acc = acc * r + tl.sum(outputs * w[:, None], 0)
        total = total * r + tl.sum(w, 0)
        m = m_new
    acc = acc / tl.where(total > 0.0, total, 1.0)
    at = request.to(tl.int64) * out_stride_b + head * out_stride_h + values
    tl.store(out_ptr + at, acc.to(out_ptr.dtype.element_ty), mask=live)


def merge_parts(
    partial: torch.Tensor,
    lse: torch.Tensor,
    first: torch.Tensor,
    out: torch.Tensor,
    *,
    sinks: torch.Tensor | None,
    **options: int,
) -> None:
    """Fill `out` [B, Hq, Dv] from partial [parts, Hq, Dv] and lse [parts, Hq]. first: as in `split_work.SplitPlan`.
    options: for the compiler."""
    _merge(partial, lse, first, out, sinks, 1, options, equal=False)


def merge_equal_parts(
    partial: torch.Tensor,
    lse: torch.Tensor,
    out: torch.Tensor,
    *,
    sinks: torch.Tensor | None,
    splits: int,
    **options: int,
) -> None:
    """Fill `out` [T, Hq, Dv] from partial [T, splits, Hq, Dv] and lse [T, splits, Hq]. options: as above."""
    _merge(partial, lse, lse, out, sinks, splits, options, equal=True)


def _merge(
    partial: torch.Tensor,
    lse: torch.Tensor,
    first: torch.Tensor,
    out: torch.Tensor,
    sinks: torch.Tensor | None,
    splits: int,
    options: dict[str, int],
    *,
    equal: bool,
) -> None:
    batch, heads, values = out.shape
    columns = next_power_of_2(values)
    merge_kernel[(batch, heads)](
        partial, lse, first, out if sinks is None else sinks, out, splits, out.stride(0), out.stride(1),
        HEADS=heads, DV=values, VALUES=columns, SINKS=sinks is not None, EQUAL=equal,
        PARTS=max(1, _ELEMENTS // columns), num_warps=2, **options,
    )  # fmt: skip
