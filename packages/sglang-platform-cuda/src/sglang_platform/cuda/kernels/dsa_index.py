"""The indexer of DeepSeek sparse attention: how much each cached token matters to each new one.

For new token t of a request and cached token s, with index queries q, weights w per head, and one 8-bit index key per
token with its float32 scale c:

    logits[t, s] = c_s * sum_h w[t, h] * max(0, q[t, h] . k_s),    s < lengths[t]

Keys lie page by page, all keys of a page before all its scales (`core.memory.index_keys`). A program takes one new
token and BLOCK_N cached ones. What lies beyond a length is left unwritten; `dsa_topk` does not read it.

Source: DeepSeek-V3.2-Exp technical report (2025), lightning indexer.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sglang_platform.cuda.kernels.fp8 import converts_fp8, from_fp8_codes
from sglang_platform.cuda.kernels.tuning import ARCHITECTURES

__all__ = ["index_logits", "index_logits_kernel"]


@triton.jit
def index_logits_kernel(
    q_ptr, weight_ptr, key_ptr, scale_ptr, table_ptr, row_ptr, len_ptr, out_ptr,
    q_stride_t, q_stride_h, weight_stride, page_stride, table_stride, out_stride,
    HEADS: tl.constexpr, HEADS_P: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr, IN_HARDWARE: tl.constexpr,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Grid (T, blocks of keys). q [T, HEADS, D]; weight float32 [T, HEADS]; key uint8 [pages, page_stride], its first
    PAGE * D bytes; scale float32, the rest of the same rows; out float32 [T, width]."""
    token = tl.program_id(0).to(tl.int64)
    length = tl.load(len_ptr + token).to(tl.int32)
    first = tl.program_id(1) * BLOCK_N
    if first >= length:
        return
    position = first + tl.arange(0, BLOCK_N)
    live = position < length
    head = tl.arange(0, HEADS_P)
    live_h = head < HEADS
    column = tl.arange(0, D)
    q = tl.load(
        q_ptr + token * q_stride_t + head[:, None] * q_stride_h + column[None, :],
        mask=live_h[:, None],
        other=0.0,
    )
    weight = tl.load(weight_ptr + token * weight_stride + head, mask=live_h, other=0.0)
    row = tl.load(row_ptr + token).to(tl.int64)
    slot = tl.load(table_ptr + row * table_stride + position, mask=live, other=0).to(tl.int64)
    page = slot // PAGE * page_stride
    within = slot % PAGE
    codes = tl.load(key_ptr + (page + within * D)[:, None] + column[None, :], mask=live[:, None], other=0)
    k = from_fp8_codes(codes, "e4m3fn", IN_HARDWARE, q.dtype)
    scale = tl.load(scale_ptr + (page + PAGE * D) // 4 + within, mask=live, other=0.0)
    products = tl.dot(q, tl.trans(k), input_precision="ieee")
    logits = tl.sum(tl.maximum(products, 0.0) * weight[:, None], 0) * scale
    tl.store(out_ptr + token * out_stride + position, logits, mask=live)


def index_logits(
    q: torch.Tensor,
    weights: torch.Tensor,
    index_buffer: torch.Tensor,
    table: torch.Tensor,
    rows: torch.Tensor,
    lengths: torch.Tensor,
    *,
    page_size: int,
    width: int,
    key_dtype: torch.dtype = torch.float8_e4m3fn,
) -> torch.Tensor:
    """float32 [T, width]; element [t, s] is undefined for s >= lengths[t].

    q float32, float16 or bfloat16 [T, heads, D], D a power of two; weights float32 [T, heads]; index_buffer uint8
    [pages, page_size * (D + 4)]; table int32 [rows, C]; rows int [T]; lengths int [T], each at most width.
    """
    tokens, heads, dim = q.shape
    out = torch.empty((tokens, width), dtype=torch.float32, device=q.device)
    if tokens == 0 or width == 0:
        return out
    shape = ARCHITECTURES.of(q.device).index
    block = shape.block_n if q.dtype != torch.float32 else 16
    if key_dtype != torch.float8_e4m3fn:
        raise ValueError(f"index keys are float8_e4m3fn on these devices, not {key_dtype}")
    index_logits_kernel[(tokens, triton.cdiv(width, block))](
        q, weights, index_buffer, index_buffer.view(torch.float32), table, rows, lengths, out,
        q.stride(0), q.stride(1), weights.stride(0), index_buffer.stride(0), table.stride(0), out.stride(0),
        HEADS=heads, HEADS_P=max(16, triton.next_power_of_2(heads)), D=dim, PAGE=page_size,
        IN_HARDWARE=converts_fp8(q.device, "e4m3fn"), BLOCK_N=block, **shape.options(),
    )  # fmt: skip
    return out
