"""Attention of one new token per request over the paged KV cache, in splits of the sequence (flash decoding).

For query head h of request b, with n = seq_lens[b] cached tokens and slot t_j = table[row_b, j]:

    s_j = scale * k_scale * q[b, h] . k[t_j, h / G]         (soft-capped where asked)
    out[b, h] = v_scale * sum_j softmax_j(s_j) v[t_j, h / G],   n - 1 - window <= j < n

A program takes one request, up to BLOCK_H query heads that share a KV head (so that the products run on matrix units
and the cache is read once for all of them), and one part of its tokens. The parts are planned on the device from the
lengths of the whole batch (`split_work`): a captured graph replays with other lengths. Each program writes its
normalised output and log2 of its sum of exponentials; `merge.merge_kernel` joins them. Without SPLIT a program takes
all tokens and writes the output.

Keys are read as a main part of MAIN columns and a rest of REST columns (D = 192 is 128 + 64, 576 is 512 + 64), both
powers of two. With LATENT the values are the main part of the keys (absorbed MLA, arXiv 2405.04434) and are not read
twice. Rows of unused slots are never loaded, so what they hold does not matter.

8-bit rows are loaded two columns at a time (`fp8_pairs`): even and odd columns are two products with half of
the queries' columns each, and two accumulators, which are interleaved at the end.

Error: see `sglang_platform.conformance.kernels.checks.attention_oracle`. Source: Dao et al., Flash-Decoding (2023).
"""

from __future__ import annotations

from functools import partial

import triton
import triton.language as tl

from sglang_platform.core.portable.triton.kernels.decode_output import write_output
from sglang_platform.core.portable.triton.kernels.stored_rows import load_rows, packed_latent, packed_rest
from sglang_platform.core.portable.triton.softmax import capped_scores, softmax_step
from sglang_platform.core.portable.triton.split_work import part_of, parts_within
from sglang_platform.core.portable.triton.wrappers import decode
from sglang_platform.cuda.kernels.fp8_pairs import load_pairs
from sglang_platform.cuda.kernels.hardware import HARDWARE
from sglang_platform.cuda.kernels.merge import merge_parts
from sglang_platform.cuda.kernels.whole_pages import attend_whole_blocks, whole_pages

__all__ = ["decode_kernel", "paged_decode"]


@triton.jit(do_not_specialize=["batch"])
def decode_kernel(
    q_ptr, k_ptr, v_ptr, table_ptr, row_ptr, len_ptr, out_ptr, partial_ptr, lse_ptr, sink_ptr, k_scale_ptr, v_scale_ptr,
    scale, cap, window, owner_ptr, first_ptr, batch,
    q_stride_b, q_stride_h, k_stride_s, k_stride_h, v_stride_s, v_stride_h, table_stride, out_stride_b, out_stride_h,
    GROUP: tl.constexpr, HEAD_BLOCKS: tl.constexpr, D: tl.constexpr, DV: tl.constexpr,
    MAIN: tl.constexpr, REST: tl.constexpr, VALUES: tl.constexpr, LATENT: tl.constexpr, PACKED: tl.constexpr,
    FORMAT: tl.constexpr, IN_HARDWARE: tl.constexpr, SCALED: tl.constexpr, CAPPED: tl.constexpr,
    SINKS: tl.constexpr, SPLIT: tl.constexpr,
    BLOCK_H: tl.constexpr, BLOCK_N: tl.constexpr,
    TAIL: tl.constexpr = 0, k_pages=None, rest_pages=None, v_pages=None,
):  # fmt: skip
    """Grid (parts, Hk * HEAD_BLOCKS); without SPLIT (B, ...). q [B, Hq, D]; k [S, Hk, D]; v [S, Hk, DV]; table
    [rows, C]; row, len [B]; out [B, Hq, DV]. SPLIT: partial float32 [parts, Hq, DV] and lse float32 [parts, Hq], and
    owner and first of `split_work.SplitPlan`.
    """
    number = tl.program_id(0)
    request, part, parts = number, 0, 1
    if SPLIT:
        request, part, parts = part_of(number, owner_ptr, first_ptr, batch)
        if request >= batch:
            return
    kv_head = tl.program_id(1) // HEAD_BLOCKS
    in_group = (tl.program_id(1) % HEAD_BLOCKS) * BLOCK_H + tl.arange(0, BLOCK_H)
    if HEAD_BLOCKS * BLOCK_H == GROUP:
        # Every block is full: said so that no head has to be kept, in registers or beside them, until the end.
        live_h = tl.full((BLOCK_H,), 1, tl.int1)
        head = tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H)
    else:
        live_h = in_group < GROUP
        head = kv_head * GROUP + in_group

    length = tl.load(len_ptr + request).to(tl.int32)
    first = tl.maximum(length - 1 - window, 0) if window >= 0 else 0
    start, end = parts_within(length, first, part, parts, BLOCK_N)
    values = tl.arange(0, VALUES)
    live_v = values < DV

    main = tl.arange(0, MAIN)
    q_row = q_ptr + request.to(tl.int64) * q_stride_b + head[:, None] * q_stride_h
    q = tl.load(q_row + main[None, :], mask=live_h[:, None], other=0.0)
    if REST > 0:
        rest = tl.arange(0, REST)
        live_rest = rest < D - MAIN
        q_rest = tl.load(q_row + MAIN + rest[None, :], mask=live_h[:, None] & live_rest[None, :], other=0.0)
    PAIRS: tl.constexpr = FORMAT != "" and not PACKED and MAIN >= 32 and VALUES >= 32
    # Products with 8-bit rows are taken in float16, which holds all their values: the codes then need one conversion,
    # where bfloat16 takes a detour through float32. A power of two per head brings the queries into its range.
    HALF: tl.constexpr = PAIRS and q_ptr.dtype.element_ty == tl.bfloat16
    if HALF:
        largest = tl.max(tl.abs(q.to(tl.float32)), 1)
        if REST > 0:
            largest = tl.maximum(largest, tl.max(tl.abs(q_rest.to(tl.float32)), 1))
        power = (largest.to(tl.int32, bitcast=True) & 0x7F800000).to(tl.float32, bitcast=True)
        power = tl.where(power > 0.0, power, 1.0)
        q = (q.to(tl.float32) / power[:, None]).to(tl.float16)
        if REST > 0:
            q_rest = (q_rest.to(tl.float32) / power[:, None]).to(tl.float16)
    if PAIRS:
        q_even, q_odd = tl.split(tl.reshape(q, (BLOCK_H, MAIN // 2, 2)))
        acc_even = tl.zeros((BLOCK_H, VALUES // 2), tl.float32)
        acc_odd = tl.zeros((BLOCK_H, VALUES // 2), tl.float32)
    k_head = k_ptr + kv_head * k_stride_h
    v_head = v_ptr + kv_head * v_stride_h
    table_row = table_ptr + tl.load(row_ptr + request).to(tl.int64) * table_stride
    if SCALED:
        scale *= tl.load(k_scale_ptr)
    row_scale = scale
    if HALF:
        row_scale = scale * power[:, None]

    m = tl.full((BLOCK_H,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_H,), tl.float32)
    acc = tl.zeros((BLOCK_H, VALUES), tl.float32)
    BLOCK: tl.constexpr = TAIL if TAIL > 0 else BLOCK_N
    if TAIL > 0:
        if REST == 0:
            q_rest = q
        if PAIRS:
            acc_even, acc_odd, m, total, start = attend_whole_blocks(
                acc_even, acc_odd, m, total, q_even, q_odd, q_rest, k_pages, rest_pages, v_pages, table_row, start, end,
                kv_head * k_stride_h // 2, kv_head * k_stride_h + MAIN, kv_head * v_stride_h // 2, row_scale, cap,
                REST, LATENT, PAIRS, FORMAT, IN_HARDWARE, CAPPED, BLOCK_N,
            )  # fmt: skip
        else:
            acc, _, m, total, start = attend_whole_blocks(
                acc, acc, m, total, q, q, q_rest, k_pages, rest_pages, v_pages, table_row, start, end,
                kv_head * k_stride_h, kv_head * k_stride_h + MAIN, kv_head * v_stride_h, row_scale, cap,
                REST, LATENT, PAIRS, FORMAT, IN_HARDWARE, CAPPED, BLOCK_N,
            )  # fmt: skip
    # Slots are fetched a block ahead: the rows then depend on no load of their own turn, and Triton gives all stages of
    # the loop to them.
    token = start + tl.arange(0, BLOCK)
    ahead = tl.load(table_row + token, mask=token < end, other=0)
    for position in range(start, end, BLOCK):
        token = position + tl.arange(0, BLOCK)
        live = token < end
        slot = ahead.to(tl.int64)
        later = token + BLOCK
        ahead = tl.load(table_row + later, mask=later < end, other=0)
        k_row = slot[:, None] * k_stride_s
        if PAIRS:
            k_even, k_odd = load_pairs(k_head, k_row, live[:, None], MAIN, MAIN, FORMAT, IN_HARDWARE, q.dtype)
            scores = tl.dot(q_even, tl.trans(k_even), input_precision="ieee")
            scores = tl.dot(q_odd, tl.trans(k_odd), scores, input_precision="ieee")
        else:
            if PACKED:
                k = packed_latent(k_head, k_row, live, MAIN, FORMAT, IN_HARDWARE, q.dtype)
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
        scores = tl.where(live[None, :], capped_scores(scores, row_scale, cap, CAPPED), float("-inf"))
        p, r, m, total = softmax_step(scores, m, total)
        if PAIRS:
            if LATENT:
                v_even, v_odd = k_even, k_odd
            else:
                v_row = slot[:, None] * v_stride_s
                v_even, v_odd = load_pairs(
                    v_head, v_row, live[:, None], VALUES, DV, FORMAT, IN_HARDWARE, q.dtype
                )
            acc_even = tl.dot(p.to(q.dtype), v_even, acc_even * r[:, None], input_precision="ieee")
            acc_odd = tl.dot(p.to(q.dtype), v_odd, acc_odd * r[:, None], input_precision="ieee")
        else:
            if LATENT:
                v = k
            else:
                v_at = slot[:, None] * v_stride_s + values[None, :]
                v = load_rows(v_head, v_at, live[:, None] & live_v[None, :], FORMAT, IN_HARDWARE, q.dtype)
            acc = tl.dot(p.to(q.dtype), v, acc * r[:, None], input_precision="ieee")

    if PAIRS:
        acc = tl.reshape(tl.join(acc_even, acc_odd), (BLOCK_H, VALUES))
    write_output(
        acc, m, total, request, number, head, live_h, values, live_v,
        out_ptr, partial_ptr, lse_ptr, sink_ptr, v_scale_ptr, out_stride_b, out_stride_h,
        GROUP, HEAD_BLOCKS, DV, SCALED, SINKS, SPLIT,
    )  # fmt: skip


paged_decode = partial(
    decode.paged_decode,
    hardware=HARDWARE,
    decode_kernel=decode_kernel,
    merge_parts=merge_parts,
    whole_pages=whole_pages,
)
"""See `core.portable.triton.wrappers.decode`."""
