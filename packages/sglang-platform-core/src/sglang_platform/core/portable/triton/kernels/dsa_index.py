"""The indexer of DeepSeek sparse attention: how much each cached token matters to each new one.

For new token t of a request and cached token s, with index queries q, weights w per head, and one 8-bit index key per
token with its float32 scale c:

    logits[t, s] = c_s * sum_h w[t, h] * max(0, q[t, h] . k_s),    s < lengths[t]

Keys lie page by page, all keys of a page before all its scales (`core.memory.index_keys`). A program takes TILE new
tokens and BLOCK_N cached ones. New tokens of one request follow each other, so it walks over runs of them: the keys of
a run are read and widened once, and stay in registers as the left side of the products, while the queries of a token
are on their way for each that is computed. What lies beyond a length is left unwritten; `dsa_topk` does not read it.

Source: DeepSeek-V3.2-Exp technical report (2025), lightning indexer.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sglang_platform.core.portable.triton.kernels.fp8_codes import from_fp8_codes
from sglang_platform.core.portable.triton.launch import cdiv, next_power_of_2
from sglang_platform.core.portable.triton.wrappers.hardware import Hardware

__all__ = ["index_logits", "index_logits_kernel"]


@triton.jit(do_not_specialize=["tokens"])
def index_logits_kernel(
    q_ptr, weight_ptr, key_ptr, scale_ptr, table_ptr, row_ptr, len_ptr, out_ptr, tokens,
    q_stride_t, q_stride_h, weight_stride, page_stride, table_stride, out_stride,
    HEADS: tl.constexpr, HEADS_P: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr, IN_HARDWARE: tl.constexpr,
    FORMAT: tl.constexpr, TILE: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Grid (blocks of TILE new tokens, blocks of keys). q [T, HEADS, D]; weight float32 [T, HEADS]; key uint8
    [pages, page_stride], its first PAGE * D bytes; scale float32, the rest of the same rows; out float32 [T, width]."""
    token = tl.program_id(0) * TILE
    last = tl.minimum(token + TILE, tokens)
    position = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    head = tl.arange(0, HEADS_P)
    live_h = head < HEADS
    column = tl.arange(0, D)
    q_at = head[None, :] * q_stride_h + column[:, None]
    while token < last:
        # The tokens from here on that belong to the same request, and how many cached ones they see at most.
        row = tl.load(row_ptr + token).to(tl.int64)
        near = token + tl.arange(0, TILE)
        other = tl.load(row_ptr + near, mask=near < last, other=-1).to(tl.int64) != row
        stop = tl.min(tl.where(other, near, token + TILE), 0)
        longest = tl.max(tl.load(len_ptr + near, mask=near < stop, other=0).to(tl.int32), 0)
        if tl.program_id(1) * BLOCK_N < longest:
            known = position < longest
            slot = tl.load(table_ptr + row * table_stride + position, mask=known, other=0).to(tl.int64)
            page = slot // PAGE * page_stride
            within = slot % PAGE
            codes = tl.load(
                key_ptr + (page + within * D)[:, None] + column[None, :], mask=known[:, None], other=0
            )
            k = from_fp8_codes(codes, FORMAT, IN_HARDWARE, q_ptr.dtype.element_ty)
            scale = tl.load(scale_ptr + (page + PAGE * D) // 4 + within, mask=known, other=0.0)
            for step in range(stop - token):
                at = token + step
                index = at.to(tl.int64)
                live = position < tl.load(len_ptr + at).to(tl.int32)
                q = tl.load(q_ptr + index * q_stride_t + q_at, mask=live_h[None, :], other=0.0)
                weight = tl.load(weight_ptr + index * weight_stride + head, mask=live_h, other=0.0)
                products = tl.dot(k, q, input_precision="ieee")
                logits = tl.sum(tl.maximum(products, 0.0) * weight[None, :], 1) * scale
                tl.store(out_ptr + index * out_stride + position, logits, mask=live)
        token = stop


def index_logits(
    q: torch.Tensor,
    weights: torch.Tensor,
    index_buffer: torch.Tensor,
    table: torch.Tensor,
    rows: torch.Tensor,
    lengths: torch.Tensor,
    *,
    hardware: Hardware,
    page_size: int,
    width: int,
    key_dtype: torch.dtype = torch.float8_e4m3fn,
    runs: bool = False,
) -> torch.Tensor:
    """float32 [T, width]; element [t, s] is undefined for s >= lengths[t].

    q float32, float16 or bfloat16 [T, heads, D], D a power of two; weights float32 [T, heads]; index_buffer uint8
    [pages, page_size * (D + 4)], keys of `key_dtype`; table int32 [rows, C]; rows int [T]; lengths int [T], each at
    most width. runs: several tokens of a request follow each other, and share the reading of its keys. Raises
    ValueError where the kernels do not know `key_dtype`.
    """
    tokens, heads, dim = q.shape
    out = torch.empty((tokens, width), dtype=torch.float32, device=q.device)
    if tokens == 0 or width == 0:
        return out
    record = hardware.of(q.device)
    shape = record.index_shape(runs=runs, float32=q.dtype == torch.float32)
    fp8_format, in_hardware = hardware.fp8(key_dtype, q.device)
    index_logits_kernel[(cdiv(tokens, shape.tile), cdiv(width, shape.block_n))](
        q, weights, index_buffer, index_buffer.view(torch.float32), table, rows, lengths, out, tokens,
        q.stride(0), q.stride(1), weights.stride(0), index_buffer.stride(0), table.stride(0), out.stride(0),
        HEADS=heads, HEADS_P=max(16, next_power_of_2(heads)), D=dim, PAGE=page_size,
        FORMAT=fp8_format, IN_HARDWARE=in_hardware, TILE=shape.tile, BLOCK_N=shape.block_n, **shape.options(),
    )  # fmt: skip
    return out
