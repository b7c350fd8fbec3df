"""Attention of several new tokens per request against its cached prefix and themselves.

For query head h, new token i of request b at position P + i (P cached tokens before), with keys and values of the
prefix from the paged cache and those of the new tokens as they came from the projections:

    s_ij = scale * q_i . k_j (times k_scale for 8-bit cached keys, soft-capped where asked)
    out_i = sum_j softmax_j(s_ij) v_j,     P + i - window <= j <= P + i     (all j where not causal)

A program takes BLOCK_M rows of one request and KV head: its new tokens, each with all query heads of the group, so that
a key is read once for the group. It walks over the keys: first the cached ones, then the new ones before its block,
which every row sees, then those on the diagonal. Where no new keys are given they are read from the cache too, where
the caller has stored them. Programs with the most keys are started first.

Where a few new tokens stand behind a long prefix, these are too few programs for the device: the cached keys are then
read in several parts, the last of which takes the new ones too. Each part leaves its normalised output and log2 of its
sum of exponentials, and `merge.merge_kernel` joins them.

The rows of a split prefill (chunked prefill) are those of the whole: a chunk is an extend whose prefix is what came
before. Source: FlashAttention-2 (Dao, arXiv 2307.08691) for the order of the loops; the error is that of
`sglang_platform.conformance.kernels.checks.attention_oracle`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

from sglang_platform.core.portable.triton.attention_layer import LayerRule
from sglang_platform.core.portable.triton.attention_shapes import head_parts, shares_values, split_count
from sglang_platform.core.portable.triton.kernels.die_order import shared_on_one_die
from sglang_platform.core.portable.triton.kernels.key_blocks import attend
from sglang_platform.core.portable.triton.launch import cdiv, next_power_of_2
from sglang_platform.core.portable.triton.merge import merge_equal_parts
from sglang_platform.core.portable.triton.split_work import parts_within
from sglang_platform.core.portable.triton.wrappers.hardware import Hardware
from sglang_platform.core.portable.triton.wrappers.stored_kv import stored_kv

__all__ = ["extend_kernel", "paged_extend"]


@triton.jit(do_not_specialize=["splits"])
def extend_kernel(
    q_ptr, k_new_ptr, v_new_ptr, k_ptr, v_ptr, table_ptr, row_ptr, start_ptr, prefix_ptr, out_ptr, partial_ptr,
    lse_ptr, sink_ptr, k_scale_ptr, v_scale_ptr, scale, cap, window, splits,
    q_stride_t, q_stride_h, kn_stride_t, kn_stride_h, vn_stride_t, vn_stride_h, k_stride_s, k_stride_h,
    v_stride_s, v_stride_h, table_stride, out_stride_t, out_stride_h,
    GROUP: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, MAIN: tl.constexpr, REST: tl.constexpr,
    VALUES: tl.constexpr, LATENT: tl.constexpr, NEW: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr,
    FORMAT: tl.constexpr, IN_HARDWARE: tl.constexpr, SCALED: tl.constexpr,
    CAPPED: tl.constexpr, SINKS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    AHEAD: tl.constexpr = False, DIES: tl.constexpr = 1,
):  # fmt: skip
    """Grid (blocks of the longest request, Hk, B * splits). q [T, Hq, D], new k [T, Hk, D] and v [T, Hk, DV], caches
    [S, Hk, .], table [rows, C], start [B + 1] (first token of each request), prefix [B], out [T, Hq, DV]; with several
    splits partial float32 [T, splits, Hq, DV] and lse float32 [T, splits, Hq]."""
    kv_head = tl.program_id(1)
    late = tl.program_id(0)
    turn = tl.program_id(2)
    if DIES > 1:
        # The blocks of one request, part and KV head read the same keys. Only where every die gets as many heads of a
        # request: requests differ in length, and a die with nothing left to do takes no work of another.
        blocks, heads = tl.num_programs(0), tl.num_programs(1)
        if heads % DIES == 0:
            at = late + blocks * (kv_head + heads * turn)
            group, late = shared_on_one_die(at, heads * tl.num_programs(2), blocks, DIES)
            kv_head = group % heads
            turn = group // heads
    request = turn // splits
    part = turn % splits
    begin = tl.load(start_ptr + request).to(tl.int64)
    count = (tl.load(start_ptr + request + 1) - begin).to(tl.int32)
    # The last rows see the most keys.
    block = (tl.num_programs(0) - 1 - late) * BLOCK_M
    if block >= count * GROUP:
        return
    prefix = tl.load(prefix_ptr + request).to(tl.int32)
    row = block + tl.arange(0, BLOCK_M)
    token = row // GROUP
    # The same for every block if no group is cut: said so that no head is kept, in registers or beside them.
    in_group = tl.arange(0, BLOCK_M) if BLOCK_M % GROUP == 0 else row
    head = kv_head * GROUP + in_group % GROUP
    live_m = token < count
    query = prefix + token
    earliest = block // GROUP
    last = tl.minimum((block + BLOCK_M - 1) // GROUP + 1, count)

    main = tl.arange(0, MAIN)
    values = tl.arange(0, VALUES)
    q_row = q_ptr + (begin + token)[:, None] * q_stride_t + head[:, None] * q_stride_h
    q = tl.load(q_row + main[None, :], mask=live_m[:, None], other=0.0)
    q_rest = q
    if REST > 0:
        rest = tl.arange(0, REST)
        q_rest = tl.load(
            q_row + MAIN + rest[None, :], mask=live_m[:, None] & (rest < D - MAIN)[None, :], other=0.0
        )

    m = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, VALUES), tl.float32)
    # The first position that the block's first row sees.
    low = tl.maximum(prefix + earliest - window, 0) if WINDOW else 0
    # Also without a prefix, where it reads nothing: a code of its own would be compiled at the first cache hit.
    cached_scale = scale
    if SCALED:
        cached_scale *= tl.load(k_scale_ptr)
    if NEW:
        end = prefix
    else:
        end = prefix + last if CAUSAL else prefix + count
    low_here, end_here = parts_within(end, low, part, splits, BLOCK_N)
    # New tokens see all cached ones before them.
    AMONG: tl.constexpr = CAUSAL and not NEW
    k_head = k_ptr + kv_head * k_stride_h
    v_head = v_ptr + kv_head * v_stride_h
    table_row = table_ptr + tl.load(row_ptr + request).to(tl.int64) * table_stride
    if not LATENT:
        if WINDOW:
            # The last row's window begins later than the first one's, by which the first blocks are masked.
            late_low = tl.maximum(prefix + last - 1 - window - low_here, 0)
            front = tl.minimum(low_here + tl.cdiv(late_low, BLOCK_N) * BLOCK_N, end_here)
            acc, m, total = attend(
                acc, m, total, q, q_rest, k_head, v_head, k_stride_s, v_stride_s, table_row, low_here, front, 0, query,
                cached_scale, cap, window,
                D, DV, MAIN, REST, VALUES, LATENT, True, True, AMONG, WINDOW, FORMAT, IN_HARDWARE, CAPPED, BLOCK_N,
                AHEAD,
            )  # fmt: skip
            low_here = tl.maximum(front, low_here)
        # Every row sees the whole blocks up to the first row's own position. Absorbed MLA has no registers for a second
        # loop, and little of its loop is about masks.
        seen = tl.minimum(prefix + earliest + 1, end_here) if AMONG else end_here
        full = low_here + tl.maximum(seen - low_here, 0) // BLOCK_N * BLOCK_N
        acc, m, total = attend(
            acc, m, total, q, q_rest, k_head, v_head, k_stride_s, v_stride_s, table_row, low_here, full, 0, query,
            cached_scale, cap, window,
            D, DV, MAIN, REST, VALUES, LATENT, True, False, AMONG, WINDOW, FORMAT, IN_HARDWARE, CAPPED, BLOCK_N, AHEAD,
        )  # fmt: skip
        low_here = full
    acc, m, total = attend(
        acc, m, total, q, q_rest, k_head, v_head, k_stride_s, v_stride_s, table_row, low_here, end_here, 0, query,
        cached_scale, cap, window,
        D, DV, MAIN, REST, VALUES, LATENT, True, True, AMONG, WINDOW, FORMAT, IN_HARDWARE, CAPPED, BLOCK_N, AHEAD,
    )  # fmt: skip
    if SCALED:
        acc *= tl.load(v_scale_ptr)
    if NEW:
        k_head = k_new_ptr + begin * kn_stride_t + kv_head * kn_stride_h
        v_head = v_new_ptr + begin * vn_stride_t + kv_head * vn_stride_h
        first = tl.maximum(low - prefix, 0) if WINDOW else 0
        end = last if CAUSAL else count
        end = tl.where(part == splits - 1, end, 0)
        if not WINDOW:
            # Every row sees whole blocks before the diagonal (all whole blocks, where not causal).
            full = tl.minimum(earliest if CAUSAL else count, end) // BLOCK_N * BLOCK_N
            acc, m, total = attend(
                acc, m, total, q, q_rest, k_head, v_head, kn_stride_t, vn_stride_t,
                table_ptr, first, full, prefix, query,
                scale, cap, window,
                D, DV, MAIN, REST, VALUES, False, False, False, CAUSAL, WINDOW, "", False, CAPPED, BLOCK_N, AHEAD,
            )  # fmt: skip
            first = full
        acc, m, total = attend(
            acc, m, total, q, q_rest, k_head, v_head, kn_stride_t, vn_stride_t, table_ptr, first, end, prefix, query,
            scale, cap, window,
            D, DV, MAIN, REST, VALUES, False, False, True, CAUSAL, WINDOW, "", False, CAPPED, BLOCK_N, AHEAD,
        )  # fmt: skip

    if SINKS:
        sink = tl.load(sink_ptr + head, mask=live_m, other=0.0).to(tl.float32) * 1.4426950408889634
        sink = tl.where(splits == 1, sink, float("-inf"))
        m_all = tl.maximum(m, sink)
        # A part without keys has neither.
        m_all = tl.where(m_all == float("-inf"), 0.0, m_all)
        r = tl.exp2(m - m_all)
        acc *= r[:, None]
        total = total * r + tl.exp2(sink - m_all)
        m = m_all
    acc = acc / tl.where(total > 0.0, total, 1.0)[:, None]
    live = live_m[:, None] & (values < DV)[None, :]
    if splits > 1:
        heads = tl.num_programs(1) * GROUP
        leading = (begin * splits + part) * heads
        place = token * (splits * heads) + head
        tl.store(partial_ptr + leading * DV + (place[:, None] * DV + values[None, :]), acc, mask=live)
        tl.store(lse_ptr + leading + place, m + tl.log2(total), mask=live_m)
    else:
        at = token.to(tl.int64)[:, None] * out_stride_t + head[:, None] * out_stride_h + values[None, :]
        tl.store(out_ptr + begin * out_stride_t + at, acc.to(out_ptr.dtype.element_ty), mask=live)


def paged_extend(
    q: torch.Tensor,
    k_new: torch.Tensor | None,
    v_new: torch.Tensor | None,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    table: torch.Tensor,
    rows: torch.Tensor,
    query_start: torch.Tensor,
    prefix_lens: torch.Tensor,
    out: torch.Tensor,
    *,
    hardware: Hardware,
    merge_parts: Callable[..., None] = merge_equal_parts,
    max_new: int,
    max_prefix: int | None = None,
    splits: int | None = None,
    causal: bool = True,
    **asked: Any,
) -> torch.Tensor:
    """Fill `out` [T, Hq, Dv] and return it.

    q [T, Hq, D]: the new tokens of all requests, request by request; k_new [T, Hk, D] and v_new [T, Hk, Dv] their keys
    and values, or None where the caches hold them already. Caches, `table`, `rows` and `asked` as in
    `decode.paged_decode`; k_scale and v_scale apply to cached values only. `query_start` int [B + 1]: where each
    request's tokens begin, and T. `prefix_lens` int [B]: cached tokens before them. max_new: the most new tokens of a
    request, max_prefix: the most cached ones, the table's width when None (both known on the CPU, so nothing waits for
    the device). splits: in how many parts the cached keys are read; None chooses so that the device is full.

    hardware, merge_parts: the package's; `merge.merge_equal_parts`, told what its compiler needs.

    Raises ValueError for shapes and dtypes that do not fit.
    """
    rule = LayerRule(**asked)
    tokens, q_heads, dim = q.shape
    values = out.shape[2]
    kv_heads = k_cache.shape[1] if k_new is None else k_new.shape[1]
    if out.shape[:2] != q.shape[:2] or q_heads % kv_heads or (k_new is None) != (v_new is None):
        raise ValueError(f"paged_extend: q {tuple(q.shape)}, {kv_heads} KV heads, out {tuple(out.shape)}")
    batch = prefix_lens.shape[0]
    if tokens == 0 or batch == 0 or max_new == 0:
        return out
    stored = stored_kv(hardware, k_cache, v_cache)
    latent = k_new is None and shares_values(k_cache, v_cache, values)
    main, rest = head_parts(dim, values if latent else None)
    record = hardware.of(q.device)
    shape = record.extend_shape(
        dim,
        latent=latent,
        widened=stored.name != "" and not stored.in_hardware,
        float32=q.dtype == torch.float32,
    )
    new_k, new_v = (q, q) if k_new is None or v_new is None else (k_new, v_new)
    if new_k.stride(-1) != 1 or new_v.stride(-1) != 1 or q.stride(-1) != 1 or out.stride(-1) != 1:
        raise ValueError("paged_extend: the last dimension of q, k_new, v_new and out must be contiguous")
    group = q_heads // kv_heads
    blocks = cdiv(max_new * group, shape.block_m)
    if splits is None:
        cached = table.shape[1] if max_prefix is None else max_prefix
        cached = min(cached, rule.window + max_new) if rule.window >= 0 else cached
        programs = blocks * kv_heads * batch
        splits = split_count(record.processors, 1, programs, cached) if programs < record.processors else 1
    # float32 also where nothing is written there: another type is another code, compiled while a request waits.
    results = tokens * splits * q_heads if splits > 1 else 1
    partial = torch.empty(results * values, dtype=torch.float32, device=q.device)
    lse = torch.empty(results, dtype=torch.float32, device=q.device)
    extend_kernel[(blocks, kv_heads, batch * splits)](
        q, new_k, new_v, stored.k, stored.v, table, rows, query_start, prefix_lens, out, partial, lse,
        *rule.values(q), splits,
        q.stride(0), q.stride(1), new_k.stride(0), new_k.stride(1), new_v.stride(0), new_v.stride(1),
        stored.k.stride(0), stored.k.stride(1), stored.v.stride(0), stored.v.stride(1), table.stride(0),
        out.stride(0), out.stride(1),
        GROUP=group, D=dim, DV=values, MAIN=main, REST=rest,
        VALUES=main if latent else next_power_of_2(values), LATENT=latent,
        NEW=k_new is not None, CAUSAL=causal, WINDOW=rule.window >= 0,
        FORMAT=stored.name, IN_HARDWARE=stored.in_hardware, **rule.flags(),
        BLOCK_M=shape.block_m, BLOCK_N=shape.block_n, **shape.options(),
    )  # fmt: skip
    if splits > 1:
        merge_parts(partial, lse, out, sinks=rule.sinks, splits=splits)
    return out
