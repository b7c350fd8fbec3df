"""Attention of one new token per request over the paged KV cache, in splits of the sequence (flash decoding).

For query head h of request b, with n = seq_lens[b] cached tokens and slot t_j = table[row_b, j]:

    s_j = scale * k_scale * q[b, h] . k[t_j, h / G]         (soft-capped where asked)
    out[b, h] = v_scale * sum_j softmax_j(s_j) v[t_j, h / G],   n - 1 - window <= j < n

A program takes one request, up to BLOCK_H query heads that share a KV head (so that the products run on matrix units
and the cache is read once for all of them), and one split. Splits are equal shares of the visible tokens, rounded up
to BLOCK_N, computed on the device from the length: a captured graph replays with other lengths. Each leaves its
normalised output and log2 of its sum of exponentials; `merge.merge_kernel` joins them. One split writes the output.

Keys are read as a main part of MAIN columns and a rest of REST columns (D = 192 is 128 + 64, 576 is 512 + 64), both
powers of two. With LATENT the values are the main part of the keys (absorbed MLA, arXiv 2405.04434) and are not read
twice. Rows of unused slots are never loaded, so what they hold does not matter.

Error: see `sglang_platform.conformance.kernels.checks.attention_oracle`. Source: Dao et al., Flash-Decoding (2023).
"""

from __future__ import annotations

from dataclasses import replace

import torch
import triton
import triton.language as tl

from sglang_platform.core.portable.triton.attention_shapes import (
    head_parts,
    one_element,
    shares_values,
    split_count,
)
from sglang_platform.core.portable.triton.softmax import capped_scores, softmax_step
from sglang_platform.cuda.kernels.architecture import CudaArchitecture, CudaDecodeShape
from sglang_platform.cuda.kernels.merge import merge_splits
from sglang_platform.cuda.kernels.packed_rows import packed_latent, packed_rest
from sglang_platform.cuda.kernels.stored_rows import load_rows, stored_kv
from sglang_platform.cuda.kernels.tuning import ARCHITECTURES

__all__ = ["decode_kernel", "paged_decode"]


@triton.jit
def decode_kernel(
    q_ptr, k_ptr, v_ptr, table_ptr, row_ptr, len_ptr, out_ptr, lse_ptr, sink_ptr, k_scale_ptr, v_scale_ptr,
    scale, cap, window, splits,
    q_stride_b, q_stride_h, k_stride_s, k_stride_h, v_stride_s, v_stride_h, table_stride, out_stride_b, out_stride_h,
    GROUP: tl.constexpr, HEAD_BLOCKS: tl.constexpr, D: tl.constexpr, DV: tl.constexpr,
    MAIN: tl.constexpr, REST: tl.constexpr, VALUES: tl.constexpr, LATENT: tl.constexpr, PACKED: tl.constexpr,
    FORMAT: tl.constexpr, IN_HARDWARE: tl.constexpr, SCALED: tl.constexpr, CAPPED: tl.constexpr,
    SINKS: tl.constexpr, SPLIT: tl.constexpr,
    BLOCK_H: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Grid (B, Hk * HEAD_BLOCKS, splits). q [B, Hq, D]; k [S, Hk, D]; v [S, Hk, DV]; table [rows, C]; row, len [B].

    SPLIT: out float32 [B, Hq, splits, DV] and lse float32 [B, Hq, splits]; otherwise out [B, Hq, DV] and no lse.
    """
    request = tl.program_id(0)
    kv_head = tl.program_id(1) // HEAD_BLOCKS
    in_group = (tl.program_id(1) % HEAD_BLOCKS) * BLOCK_H + tl.arange(0, BLOCK_H)
    live_h = in_group < GROUP
    head = kv_head * GROUP + in_group
    split = tl.program_id(2)

    length = tl.load(len_ptr + request).to(tl.int32)
    first = tl.maximum(length - 1 - window, 0) if window >= 0 else 0
    share = tl.cdiv(tl.cdiv(length - first, splits), BLOCK_N) * BLOCK_N
    start = first + split * share
    end = tl.minimum(start + share, length)
    values = tl.arange(0, VALUES)
    live_v = values < DV
    if SPLIT and start >= end:
        return

    main = tl.arange(0, MAIN)
    q_row = q_ptr + request.to(tl.int64) * q_stride_b + head[:, None] * q_stride_h
    q = tl.load(q_row + main[None, :], mask=live_h[:, None], other=0.0)
    if REST > 0:
        rest = tl.arange(0, REST)
        live_rest = rest < D - MAIN
        q_rest = tl.load(q_row + MAIN + rest[None, :], mask=live_h[:, None] & live_rest[None, :], other=0.0)
    k_head = k_ptr + kv_head * k_stride_h
    v_head = v_ptr + kv_head * v_stride_h
    table_row = table_ptr + tl.load(row_ptr + request).to(tl.int64) * table_stride
    if SCALED:
        scale *= tl.load(k_scale_ptr)

    m = tl.full((BLOCK_H,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_H,), tl.float32)
    acc = tl.zeros((BLOCK_H, VALUES), tl.float32)
    for position in range(start, end, BLOCK_N):
        token = position + tl.arange(0, BLOCK_N)
        live = token < end
        slot = tl.load(table_row + token, mask=live, other=0).to(tl.int64)
        k_row = slot[:, None] * k_stride_s
        if PACKED:
            k = packed_latent(k_head, k_row, live, MAIN, IN_HARDWARE, q.dtype)
        else:
            k = load_rows(k_head, k_row + main[None, :], live[:, None], FORMAT, IN_HARDWARE, q.dtype)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")
        if REST > 0:
            if PACKED:
                k_rest = packed_rest(k_head, k_row, live, MAIN, REST, q.dtype)
            else:
                live_k = live[:, None] & live_rest[None, :]
                k_rest = load_rows(k_head, k_row + MAIN + rest[None, :], live_k, FORMAT, IN_HARDWARE, q.dtype)
            scores = tl.dot(q_rest, tl.trans(k_rest), scores, input_precision="ieee")
        scores = tl.where(live[None, :], capped_scores(scores, scale, cap, CAPPED), float("-inf"))
        p, r, m, total = softmax_step(scores, m, total)
        if LATENT:
            v = k
        else:
            v_at = slot[:, None] * v_stride_s + values[None, :]
            v = load_rows(v_head, v_at, live[:, None] & live_v[None, :], FORMAT, IN_HARDWARE, q.dtype)
        acc = tl.dot(p.to(q.dtype), v, acc * r[:, None], input_precision="ieee")

    if SINKS and not SPLIT:
        # A sink is one more score whose value is zero.
        sink = tl.load(sink_ptr + head, mask=live_h, other=0.0).to(tl.float32) * 1.4426950408889634
        m_all = tl.maximum(m, sink)
        r = tl.exp2(m - m_all)
        acc *= r[:, None]
        total = total * r + tl.exp2(sink - m_all)
        m = m_all
    acc = acc / tl.where(total > 0.0, total, 1.0)[:, None]
    if SCALED:
        acc *= tl.load(v_scale_ptr)
    if SPLIT:
        at = (
            (request.to(tl.int64) * out_stride_b + head[:, None] * out_stride_h)
            + split * DV
            + values[None, :]
        )
        heads = tl.num_programs(1) // HEAD_BLOCKS * GROUP
        tl.store(lse_ptr + (request * heads + head) * splits + split, m + tl.log2(total), mask=live_h)
    else:
        at = request.to(tl.int64) * out_stride_b + head[:, None] * out_stride_h + values[None, :]
    tl.store(out_ptr + at, acc.to(out_ptr.dtype.element_ty), mask=live_h[:, None] & live_v[None, :])


def paged_decode(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    table: torch.Tensor,
    rows: torch.Tensor,
    seq_lens: torch.Tensor,
    out: torch.Tensor,
    *,
    scale: float,
    logit_cap: float = 0.0,
    window: int = -1,
    sinks: torch.Tensor | None = None,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
    packed: torch.dtype | None = None,
    max_len: int | None = None,
    splits: int | None = None,
    workspace: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> torch.Tensor:
    """Fill `out` [B, Hq, Dv] and return it.

    q [B, Hq, D] float32, float16 or bfloat16; k_cache [S, Hk, D] and v_cache [S, Hk, Dv] of q's dtype or fp8, with
    contiguous last dimensions; `table` int32 [rows, C] holds slots by position, `rows` int [B] each request's row,
    `seq_lens` int [B] its tokens, the new one included (0 answers zeros). Absorbed MLA: Hk = 1 and v_cache is a view of
    k_cache's first Dv columns.

    scale: of the scores. logit_cap: 0 for none. window: how many earlier positions are seen, -1 for all. sinks float
    [Hq]: one more logit per head. k_scale, v_scale: float32 of one element, what stored fp8 values are multiplied by.
    packed: k_cache is uint8 [S, 1, bytes] of packed sparse-MLA rows (`memory.packed_fp8`) in this 8-bit format.

    splits: in how many parts each sequence is read; None chooses by the batch, the device and max_len (the most tokens
    of a request, the table's width when None). Fixed numbers of B and splits launch the same grid, whatever the
    lengths, as a captured graph needs. workspace: float32 [>= B * Hq * splits * Dv] and [>= B * Hq * splits], made
    when None.

    Raises ValueError for shapes and dtypes that do not fit.
    """
    batch, q_heads, dim = q.shape
    values = out.shape[2]
    kv_heads = k_cache.shape[1]
    if out.shape[:2] != q.shape[:2] or q_heads % kv_heads or v_cache.shape[-1] < values:
        shapes = {"q": q, "k_cache": k_cache, "v_cache": v_cache, "out": out}
        raise ValueError(
            f"paged_decode: { ({name: tuple(x.shape) for name, x in shapes.items()}) } do not fit"
        )
    if batch == 0:
        return out
    record = ARCHITECTURES.of(q.device)
    stored = stored_kv(k_cache, v_cache, packed)
    latent = packed is not None or shares_values(k_cache, v_cache, values)
    main, rest = head_parts(dim, values if latent else None)
    group = q_heads // kv_heads
    shape = _shape(record, dim, latent, q.dtype)
    block_h = min(max(16, triton.next_power_of_2(group)), shape.block_h)
    head_blocks = triton.cdiv(group, block_h)
    visible = table.shape[1] if max_len is None else max_len
    visible = min(visible, window + 1) if window >= 0 else visible
    if splits is None:
        splits = split_count(record.processors, shape.waves, batch * kv_heads * head_blocks, visible)
    if splits > 1:
        count = batch * q_heads * splits
        if workspace is None:
            partial = torch.empty(count * values, dtype=torch.float32, device=q.device)
            lse = torch.empty(count, dtype=torch.float32, device=q.device)
        else:
            partial, lse = workspace
        into, strides = partial, (q_heads * splits * values, splits * values)
    else:
        into, lse, strides = out, seq_lens, (out.stride(0), out.stride(1))
    decode_kernel[(batch, kv_heads * head_blocks, splits)](
        q, stored.k, stored.v, table, rows, seq_lens, into, lse,
        q if sinks is None else sinks, *one_element(q, k_scale, v_scale),
        scale, logit_cap, window, splits,
        q.stride(0), q.stride(1), stored.k.stride(0), stored.k.stride(1), stored.v.stride(0), stored.v.stride(1),
        table.stride(0), *strides,
        GROUP=group, HEAD_BLOCKS=head_blocks, D=dim, DV=values, MAIN=main, REST=rest,
        VALUES=main if latent else triton.next_power_of_2(values), LATENT=latent, PACKED=packed is not None,
        FORMAT=stored.name, IN_HARDWARE=stored.in_hardware, SCALED=k_scale is not None or v_scale is not None,
        CAPPED=logit_cap > 0, SINKS=sinks is not None, SPLIT=splits > 1,
        BLOCK_H=block_h, BLOCK_N=shape.block_n, **shape.options(),
    )  # fmt: skip
    if splits > 1:
        merge_splits(
            partial, lse, seq_lens, out, sinks=sinks, splits=splits, block_n=shape.block_n, window=window
        )
    return out


def _shape(record: CudaArchitecture, dim: int, latent: bool, dtype: torch.dtype) -> CudaDecodeShape:
    shape = record.decode.choose(dim, latent)
    if dtype == torch.float32:
        # Twice the bytes per element, and no tensor core to feed.
        return replace(shape, block_n=16, block_h=16, stages=1)
    return shape
