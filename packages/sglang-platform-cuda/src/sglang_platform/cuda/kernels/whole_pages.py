"""Decode over whole pages, whose rows NVIDIA's copy unit (TMA) copies to shared memory.

If a page is no shorter than a block of BLOCK_N tokens, the block's rows are contiguous in memory: one slot gives their
address, and one instruction of one thread copies them, where a gather computes an address for every 16 bytes. No token
of a whole block is masked, so an iteration of the loop is little more than products and softmax.

The tokens after the last whole block, BLOCK_N - 1 at most, are gathered by their slots as without pages, in blocks of
TAIL: the rows after them in their page are unused, and may hold NaN.

The copy unit requires Hopper or newer, and addresses and strides in multiples of 16 bytes. Source: PTX ISA,
cp.async.bulk.tensor.
"""

from __future__ import annotations

from functools import partial

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from sglang_platform.core.portable.triton.attention_shapes import head_parts
from sglang_platform.core.portable.triton.kernels.fp8_codes import from_fp8_codes
from sglang_platform.core.portable.triton.softmax import capped_scores, softmax_step
from sglang_platform.core.portable.triton.wrappers.decode import WholePages
from sglang_platform.core.portable.triton.wrappers.stored_kv import StoredKV
from sglang_platform.cuda.kernels.architecture import CudaArchitecture
from sglang_platform.cuda.kernels.fp8_pairs import from_fp8_pairs

__all__ = ["attend_whole_blocks", "whole_pages"]

_TAIL = 16
"""Tokens per block after the last whole block, where few tokens remain."""


@triton.jit
def attend_whole_blocks(
    acc, acc_odd, m, total, q, q_odd, q_rest, k_pages, rest_pages, v_pages, table_row, start, end,
    k_column, rest_column, v_column, scale, cap,
    REST: tl.constexpr, LATENT: tl.constexpr, PAIRS: tl.constexpr,
    FORMAT: tl.constexpr, IN_HARDWARE: tl.constexpr, CAPPED: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Take in the whole blocks of tokens [start, end), `start` a multiple of BLOCK_N, and answer the token behind them
    too. Columns are those of the descriptors. PAIRS: `acc` and `q` are of even columns, beside odd ones; otherwise the
    odd ones are anything, and given back."""
    last = start + (end - start) // BLOCK_N * BLOCK_N
    # As in the kernel for single slots: read a block ahead, so that no copy waits for its own turn's slot.
    ahead = tl.load(table_row + start, mask=start < last, other=0)
    for position in range(start, last, BLOCK_N):
        slot = ahead
        later = position + BLOCK_N
        ahead = tl.load(table_row + later, mask=later < last, other=0)
        k = k_pages.load([slot, k_column])
        if PAIRS:
            k, k_odd = from_fp8_pairs(k, FORMAT, IN_HARDWARE, q.dtype)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")
        if PAIRS:
            scores = tl.dot(q_odd, tl.trans(k_odd), scores, input_precision="ieee")
        if REST > 0:
            k_rest = rest_pages.load([slot, rest_column])
            if FORMAT != "":
                k_rest = from_fp8_codes(k_rest, FORMAT, IN_HARDWARE, q.dtype)
            scores = tl.dot(q_rest, tl.trans(k_rest), scores, input_precision="ieee")
        p, r, m, total = softmax_step(capped_scores(scores, scale, cap, CAPPED), m, total)
        p = p.to(q.dtype)
        if LATENT:
            v = k
            if PAIRS:
                v_odd = k_odd
        else:
            v = v_pages.load([slot, v_column])
            if PAIRS:
                v, v_odd = from_fp8_pairs(v, FORMAT, IN_HARDWARE, q.dtype)
        acc = tl.dot(p, v, acc * r[:, None], input_precision="ieee")
        if PAIRS:
            acc_odd = tl.dot(p, v_odd, acc_odd * r[:, None], input_precision="ieee")
    return acc, acc_odd, m, total, last


def whole_pages(
    record: CudaArchitecture,
    stored: StoredKV,
    *,
    page_size: int,
    dtype: torch.dtype,
    dim: int,
    values: int,
    latent: bool,
) -> WholePages | None:
    """How decode reads pages of `page_size` tokens of `stored` on the record's devices.

    dtype: of the queries. dim, values: columns of a key and of a value. latent: values are the first of a key's.

    None to read single slots instead: if that is faster, if pages are shorter than a block, or if the copy unit cannot
    read the cache's layout.
    """
    eight_bit = stored.name != ""
    shape = record.page_shape(dim, latent=latent, eight_bit=eight_bit)
    if shape is None or page_size % shape.block_n:
        return None
    main, rest = head_parts(dim, values if latent else None)
    # Columns past the head's width would belong to the next head.
    exact = main + rest == dim and values & (values - 1) == 0 and min(main, values) >= 32
    caches = (stored.k,) if latent else (stored.k, stored.v)
    if (
        not exact
        or dtype.itemsize != 2
        or not (eight_bit or stored.k.dtype == dtype)
        or not all(map(_copied, caches))
    ):
        return None
    rows = partial(_rows, tokens=shape.block_n)
    # 8-bit rows are read two columns at a time, all but the rest of a key.
    k, v = (x.view(torch.uint16) if eight_bit else x for x in (stored.k, stored.v))
    per = dtype.itemsize // stored.k.itemsize
    arguments = {
        "TAIL": _TAIL,
        "k_pages": rows(k, columns=main // per),
        "rest_pages": rows(stored.k, columns=rest) if rest else None,
        "v_pages": None if latent else rows(v, columns=values // per),
    }
    return WholePages(shape, arguments)


def _copied(cache: torch.Tensor) -> bool:
    """Whether the copy unit can read `cache` [S, Hk, D]."""
    return all(n % 16 == 0 for n in (cache.data_ptr(), *(n * cache.itemsize for n in cache.stride()[:2])))


def _rows(cache: torch.Tensor, tokens: int, columns: int) -> TensorDescriptor:
    """Blocks of `tokens` rows and `columns` columns of `cache` [S, Hk, D], where a row is all heads of a slot."""
    slots, heads, dim = cache.shape
    row = (heads - 1) * cache.stride(1) + dim
    return TensorDescriptor(cache, [slots, row], [cache.stride(0), 1], [tokens, columns])
