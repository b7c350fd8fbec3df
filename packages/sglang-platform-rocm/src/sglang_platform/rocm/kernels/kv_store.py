"""Storing rows at slots: K and V of a layer, or the two parts of an MLA row, in one launch.

    a_out[loc[t]] = cast(a[t] / a_scale),  b_out[loc[t]] = cast(b[t] / b_scale)

One program takes a block of tokens and a range of columns of one of the two. The rows to store are
read once, so they pass L1 by; what is stored stays, since attention reads it next.

The division is IEEE float32, the cast rounds to nearest even and saturates in fp8, so that the bytes are those of
core's torch code.
"""

from __future__ import annotations

from functools import partial

import triton
import triton.language as tl

from sglang_platform.core.portable.triton.wrappers import kv_store
from sglang_platform.rocm.kernels.fp8 import HARDWARE, to_fp8_codes

__all__ = ["as_stored", "store_pair", "store_pair_kernel"]


@triton.jit
def as_stored(values, scale, out_ptr, SCALE: tl.constexpr, FORMAT: tl.constexpr, IN_HARDWARE: tl.constexpr):
    """A block as a cache at `out_ptr` holds it: divided by `scale` where there is one, and cast."""
    if SCALE != "none":
        if SCALE == "pointer":
            divisor = tl.load(scale).to(tl.float32)
        else:
            divisor = scale
        values = tl.div_rn(values.to(tl.float32), tl.zeros_like(values).to(tl.float32) + divisor)
    if FORMAT == "":
        stored = values.to(out_ptr.dtype.element_ty)
    else:
        stored = to_fp8_codes(values.to(tl.float32), FORMAT, IN_HARDWARE)
    return stored


@triton.jit
def _store_columns(
    x_ptr, out_ptr, scale, tokens, slots, live, start,
    stride_token, stride_head, out_stride,
    HEAD_DIM: tl.constexpr, WIDTH: tl.constexpr, FLAT: tl.constexpr, SCALE: tl.constexpr,
    FORMAT: tl.constexpr, IN_HARDWARE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    column = start + tl.arange(0, BLOCK)
    mask = live[:, None] & (column < WIDTH)[None, :]
    if FLAT:
        within = column
    else:
        within = (column // HEAD_DIM) * stride_head + column % HEAD_DIM
    values = tl.load(
        x_ptr + tokens[:, None] * stride_token + within[None, :], mask=mask, cache_modifier=".cg"
    )
    stored = as_stored(values, scale, out_ptr, SCALE, FORMAT, IN_HARDWARE)
    tl.store(out_ptr + slots[:, None] * out_stride + column[None, :], stored, mask=mask)


@triton.jit(do_not_specialize=["n"])
def store_pair_kernel(
    a_ptr, b_ptr, a_out_ptr, b_out_ptr, loc_ptr, a_scale, b_scale, n,
    a_stride_token, a_stride_head, a_out_stride, b_stride_token, b_stride_head, b_out_stride,
    A_HEAD_DIM: tl.constexpr, A_WIDTH: tl.constexpr, A_FLAT: tl.constexpr, A_SCALE: tl.constexpr,
    B_HEAD_DIM: tl.constexpr, B_WIDTH: tl.constexpr, B_FLAT: tl.constexpr, B_SCALE: tl.constexpr,
    FORMAT: tl.constexpr, IN_HARDWARE: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Grid (blocks of tokens, column ranges of a, then of b). `loc` [n]; `a` [n, heads, A_HEAD_DIM], rows of A_WIDTH.

    `FLAT`: a row is contiguous. `SCALE`: "none", "value" (a float argument) or "pointer" (one element on the device).
    """
    tokens = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    live = tokens < n
    slots = tl.load(loc_ptr + tokens, mask=live, other=0).to(tl.int64)
    part = tl.program_id(1)
    A_PARTS: tl.constexpr = (A_WIDTH + BLOCK - 1) // BLOCK
    if part < A_PARTS:
        _store_columns(
            a_ptr, a_out_ptr, a_scale, tokens, slots, live, part * BLOCK,
            a_stride_token, a_stride_head, a_out_stride,
            A_HEAD_DIM, A_WIDTH, A_FLAT, A_SCALE, FORMAT, IN_HARDWARE, BLOCK,
        )  # fmt: skip
    else:
        _store_columns(
            b_ptr, b_out_ptr, b_scale, tokens, slots, live, (part - A_PARTS) * BLOCK,
            b_stride_token, b_stride_head, b_out_stride,
            B_HEAD_DIM, B_WIDTH, B_FLAT, B_SCALE, FORMAT, IN_HARDWARE, BLOCK,
        )  # fmt: skip


store_pair = partial(kv_store.store_pair, hardware=HARDWARE, store_pair_kernel=store_pair_kernel)
"""See `core.portable.triton.wrappers.kv_store`."""
