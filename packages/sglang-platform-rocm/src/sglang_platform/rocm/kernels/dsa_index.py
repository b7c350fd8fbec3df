"""The indexer of DeepSeek sparse attention: how much each cached token matters to each new one.

For new token t of a request and cached token s, with index queries q, weights w per head, and one 8-bit index key per
token with its float32 scale c:

    logits[t, s] = c_s * sum_h w[t, h] * max(0, q[t, h] . k_s),    s < lengths[t]

Keys lie page by page, all keys of a page before all its scales (`core.memory.index_keys`). A program takes one new
token and BLOCK_N cached ones. What lies beyond a length is left unwritten; `dsa_topk` does not read it.

Source: DeepSeek-V3.2-Exp technical report (2025), lightning indexer.
"""

from __future__ import annotations

from functools import partial

import triton
import triton.language as tl

from sglang_platform.core.portable.triton.wrappers import dsa_index
from sglang_platform.rocm.kernels.fp8 import HARDWARE
from sglang_platform.rocm.kernels.fp8_values import from_fp8_codes

__all__ = ["index_logits", "index_logits_kernel"]


@triton.jit
def index_logits_kernel(
    q_ptr, weight_ptr, key_ptr, scale_ptr, table_ptr, row_ptr, len_ptr, out_ptr,
    q_stride_t, q_stride_h, weight_stride, page_stride, table_stride, out_stride,
    HEADS: tl.constexpr, HEADS_P: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr, IN_HARDWARE: tl.constexpr,
    FORMAT: tl.constexpr, BLOCK_N: tl.constexpr,
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
    k = from_fp8_codes(codes, FORMAT, IN_HARDWARE, q.dtype)
    scale = tl.load(scale_ptr + (page + PAGE * D) // 4 + within, mask=live, other=0.0)
    products = tl.dot(q, tl.trans(k), input_precision="ieee")
    logits = tl.sum(tl.maximum(products, 0.0) * weight[:, None], 0) * scale
    tl.store(out_ptr + token * out_stride + position, logits, mask=live)


index_logits = partial(dsa_index.index_logits, hardware=HARDWARE, index_logits_kernel=index_logits_kernel)
"""See `core.portable.triton.wrappers.dsa_index`."""
