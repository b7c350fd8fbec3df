"""Attention of one new token per request over the paged KV cache, in splits of the sequence (flash decoding).

For query head h of request b, with n = seq_lens[b] cached tokens and slot t_j = table[row_b, j]:

    s_j = scale * k_scale * q[b, h] . k[t_j, h / G]         (soft-capped where asked)
    out[b, h] = v_scale * sum_j softmax_j(s_j) v[t_j, h / G],   n - 1 - window <= j < n

A program takes one request, up to BLOCK_H query heads that share a KV head (so that the products run on matrix cores
and the cache is read once for all of them), and one part of its tokens. The parts are planned on the device from the
lengths of the whole batch (`split_work`): a captured graph replays with other lengths. Each program writes its
normalised output and log2 of its sum of exponentials; `merge.merge_kernel` joins them. Without SPLIT a program takes
all tokens and writes the output. Where several programs share a KV head they are laid on one die (`die_order`).

Keys are read as a main part of MAIN columns and a rest of REST columns (D = 192 is 128 + 64, 576 is 512 + 64), both
powers of two. With LATENT the values are the main part of the keys (absorbed MLA, arXiv 2405.04434) and are not read
twice. Rows of unused slots are never loaded, so what they hold does not matter.

Error: see `sglang_platform.conformance.kernels.checks.attention_oracle`. Source: Dao et al., Flash-Decoding (2023).
"""

from __future__ import annotations

from functools import partial

import triton
import triton.language as tl

from sglang_platform.core.portable.triton.kernels.decode_output import write_output
from sglang_platform.core.portable.triton.kernels.die_order import shared_on_one_die
from sglang_platform.core.portable.triton.kernels.stored_rows import load_rows, packed_latent, packed_rest
from sglang_platform.core.portable.triton.merge import merge_parts
from sglang_platform.core.portable.triton.softmax import capped_scores, softmax_step, softmax_step_by_block
from sglang_platform.core.portable.triton.split_work import part_of, parts_within
from sglang_platform.core.portable.triton.wrappers import decode
from sglang_platform.rocm.kernels.fp8_parts import in_two_parts, load_codes
from sglang_platform.rocm.kernels.hardware import HARDWARE

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
    BLOCK_H: tl.constexpr, BLOCK_N: tl.constexpr, DIES: tl.constexpr,
):  # fmt: skip
    """Grid (parts, Hk * HEAD_BLOCKS); without SPLIT (B, ...). q [B, Hq, D]; k [S, Hk, D]; v [S, Hk, DV]; table
    [rows, C]; row, len [B]; out [B, Hq, DV]. SPLIT: partial float32 [parts, Hq, DV] and lse float32 [parts, Hq], and
    owner and first of `split_work.SplitPlan`.
    """
    number = tl.program_id(0)
    kv_head = tl.program_id(1) // HEAD_BLOCKS
    head_block = tl.program_id(1) % HEAD_BLOCKS
    if DIES > 1 and HEAD_BLOCKS > 1:
        # The programs of one part and KV head read the same rows.
        most = tl.num_programs(0)
        group, head_block = shared_on_one_die(
            number + most * tl.program_id(1), most * (tl.num_programs(1) // HEAD_BLOCKS), HEAD_BLOCKS, DIES
        )
        number = group % most
        kv_head = group // most
    request, part, parts = number, 0, 1
    if SPLIT:
        request, part, parts = part_of(number, owner_ptr, first_ptr, batch)
        if request >= batch:
            return
    in_group = head_block * BLOCK_H + tl.arange(0, BLOCK_H)
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
    # Products with 8-bit rows are taken in float16, which holds all their values: the codes then need one conversion,
    # where bfloat16 takes a detour through float32. A power of two per head brings the queries into its range.
    HALF: tl.constexpr = FORMAT != "" and not PACKED and q_ptr.dtype.element_ty == tl.bfloat16
    # Where the matrix cores multiply such codes, the scores need no conversion at all: a bfloat16 is the sum of two
    # 8-bit floats, with which the codes are multiplied one after the other.
    NATIVE: tl.constexpr = HALF and IN_HARDWARE and (FORMAT == "e4m3fnuz" or FORMAT == "e4m3fn")
    # So are the values of absorbed MLA on CDNA4, with weights in two parts: its LDS hands the tokens of a column to the
    # matrix cores side by side.
    TWO_PARTS: tl.constexpr = NATIVE and LATENT and FORMAT == "e4m3fn"
    WIDE: tl.constexpr = tl.float16 if HALF else q_ptr.dtype.element_ty
    if HALF:
        largest = tl.max(tl.abs(q.to(tl.float32)), 1)
        if REST > 0:
            largest = tl.maximum(largest, tl.max(tl.abs(q_rest.to(tl.float32)), 1))
        power = (largest.to(tl.int32, bitcast=True) & 0x7F800000).to(tl.float32, bitcast=True)
        # Smaller queries have scores of zero either way, and a 64th of their power may be flushed to zero.
        power = tl.where(power > 1e-30, power, 1.0)
        if NATIVE:
            power /= 64.0
            q, q_low = in_two_parts(q.to(tl.float32) / power[:, None], FORMAT)
            if REST > 0:
                q_rest, q_rest_low = in_two_parts(q_rest.to(tl.float32) / power[:, None], FORMAT)
        else:
            q = (q.to(tl.float32) / power[:, None]).to(tl.float16)
            if REST > 0:
                q_rest = (q_rest.to(tl.float32) / power[:, None]).to(tl.float16)
    k_head = k_ptr + kv_head * k_stride_h
    v_head = v_ptr + kv_head * v_stride_h
    table_row = table_ptr + tl.load(row_ptr + request).to(tl.int64) * table_stride
    if SCALED:
        scale *= tl.load(k_scale_ptr)
    row_scale = scale
    if HALF:
        row_scale = scale * power[:, None]

    m = tl.full((BLOCK_H,), float("-inf"), tl.float32)
    largest_weight = m
    total = tl.zeros((BLOCK_H,), tl.float32)
    acc = tl.zeros((BLOCK_H, VALUES), tl.float32)
    # Slots are fetched a block ahead: the rows of a block then wait for one load of the table less.
    token = start + tl.arange(0, BLOCK_N)
    ahead = tl.load(table_row + token, mask=token < end, other=0)
    for position in range(start, end, BLOCK_N):
        token = position + tl.arange(0, BLOCK_N)
        live = token < end
        slot = ahead.to(tl.int64)
        later = token + BLOCK_N
        ahead = tl.load(table_row + later, mask=later < end, other=0)
        k_row = slot[:, None] * k_stride_s
        if PACKED:
            k = packed_latent(k_head, k_row, live, MAIN, FORMAT, IN_HARDWARE, WIDE)
        elif NATIVE:
            k = load_codes(k_head, k_row + main[None, :], live[:, None], FORMAT)
        else:
            k = load_rows(k_head, k_row + main[None, :], live[:, None], FORMAT, IN_HARDWARE, WIDE)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")
        if NATIVE:
            scores = tl.dot(q_low, tl.trans(k), scores)
        if REST > 0:
            live_k = live[:, None] & live_rest[None, :]
            if PACKED:
                k_rest = packed_rest(k_head, k_row, live, MAIN, REST, WIDE)
            elif NATIVE:
                k_rest = load_codes(k_head, k_row + MAIN + rest[None, :], live_k, FORMAT)
                scores = tl.dot(q_rest_low, tl.trans(k_rest), scores)
            else:
                k_rest = load_rows(k_head, k_row + MAIN + rest[None, :], live_k, FORMAT, IN_HARDWARE, WIDE)
            scores = tl.dot(q_rest, tl.trans(k_rest), scores, input_precision="ieee")
        scores = tl.where(live[None, :], capped_scores(scores, row_scale, cap, CAPPED), float("-inf"))
        if TWO_PARTS:
            p, r, m, total, largest_weight = softmax_step_by_block(scores, m, total, largest_weight)
            p, p_low = in_two_parts(p * 256.0, FORMAT)
            acc = tl.dot(p_low, k, acc * r[:, None])
            acc = tl.dot(p, k, acc)
        else:
            p, r, m, total = softmax_step(scores, m, total)
            if LATENT:
                v = k.to(WIDE)
            else:
                v_at = slot[:, None] * v_stride_s + values[None, :]
                v = load_rows(v_head, v_at, live[:, None] & live_v[None, :], FORMAT, IN_HARDWARE, WIDE)
            acc = tl.dot(p.to(WIDE), v, acc * r[:, None], input_precision="ieee")

    if TWO_PARTS:
        acc *= 1.0 / 256.0
    write_output(
        acc, m, total, request, number, head, live_h, values, live_v,
        out_ptr, partial_ptr, lse_ptr, sink_ptr, v_scale_ptr, out_stride_b, out_stride_h,
        GROUP, HEAD_BLOCKS, DV, SCALED, SINKS, SPLIT,
    )  # fmt: skip


paged_decode = partial(
    decode.paged_decode, hardware=HARDWARE, decode_kernel=decode_kernel, merge_parts=merge_parts
)
"""See `core.portable.triton.wrappers.decode`."""
