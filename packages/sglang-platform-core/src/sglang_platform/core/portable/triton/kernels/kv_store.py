"""Storing rows at slots: K and V of a layer, or the two parts of an MLA row, in one launch.

    a_out[loc[t]] = cast(a[t] / a_scale),  b_out[loc[t]] = cast(b[t] / b_scale)

One program takes a block of tokens and a range of columns of one of the two. The rows to store are
read once, which the package's hints tell the cache (`Hardware`); what is stored stays, since attention reads it next.

The division is IEEE float32, the cast rounds to nearest even and saturates in fp8, so that the bytes are those of
core's torch code.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sglang_platform.core.memory.rows import Scale
from sglang_platform.core.portable.triton.architecture import Launch
from sglang_platform.core.portable.triton.kernels.fp8_codes import to_fp8_codes
from sglang_platform.core.portable.triton.launch import cdiv, next_power_of_2
from sglang_platform.core.portable.triton.wrappers.hardware import Hardware

__all__ = ["as_stored", "scale_kind", "store_pair", "store_pair_kernel"]


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
    FORMAT: tl.constexpr, IN_HARDWARE: tl.constexpr, CACHE: tl.constexpr, EVICTION: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    column = start + tl.arange(0, BLOCK)
    mask = live[:, None] & (column < WIDTH)[None, :]
    if FLAT:
        within = column
    else:
        within = (column // HEAD_DIM) * stride_head + column % HEAD_DIM
    x = x_ptr + tokens[:, None] * stride_token + within[None, :]
    values = tl.load(x, mask=mask, cache_modifier=CACHE, eviction_policy=EVICTION)
    stored = as_stored(values, scale, out_ptr, SCALE, FORMAT, IN_HARDWARE)
    tl.store(out_ptr + slots[:, None] * out_stride + column[None, :], stored, mask=mask)


@triton.jit(do_not_specialize=["n"])
def store_pair_kernel(
    a_ptr, b_ptr, a_out_ptr, b_out_ptr, loc_ptr, a_scale, b_scale, n,
    a_stride_token, a_stride_head, a_out_stride, b_stride_token, b_stride_head, b_out_stride,
    A_HEAD_DIM: tl.constexpr, A_WIDTH: tl.constexpr, A_FLAT: tl.constexpr, A_SCALE: tl.constexpr,
    B_HEAD_DIM: tl.constexpr, B_WIDTH: tl.constexpr, B_FLAT: tl.constexpr, B_SCALE: tl.constexpr,
    FORMAT: tl.constexpr, IN_HARDWARE: tl.constexpr, CACHE: tl.constexpr, EVICTION: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK: tl.constexpr,
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
            A_HEAD_DIM, A_WIDTH, A_FLAT, A_SCALE, FORMAT, IN_HARDWARE, CACHE, EVICTION, BLOCK,
        )  # fmt: skip
    else:
        _store_columns(
            b_ptr, b_out_ptr, b_scale, tokens, slots, live, (part - A_PARTS) * BLOCK,
            b_stride_token, b_stride_head, b_out_stride,
            B_HEAD_DIM, B_WIDTH, B_FLAT, B_SCALE, FORMAT, IN_HARDWARE, CACHE, EVICTION, BLOCK,
        )  # fmt: skip


def store_pair(
    a: torch.Tensor,
    b: torch.Tensor,
    a_out: torch.Tensor,
    b_out: torch.Tensor,
    loc: torch.Tensor,
    a_scale: Scale = None,
    b_scale: Scale = None,
    *,
    hardware: Hardware,
    dtype: torch.dtype,
    launch: Launch | None = None,
) -> None:
    """Store `a` [n, Ha, Da] and `b` [n, Hb, Db], any strides, at rows `loc` [n] of `a_out` and `b_out`.

    `a_out` [slots, Ha, Da] and `b_out` [slots, Hb, Db] hold `dtype`, fp8 as uint8; within a row they are contiguous,
    between rows they may have any stride. What has `dtype` already is stored as it is, whatever the scale says, as in
    `core.memory.rows.cast_rows`. A scale is a number or a tensor of one element. Rows of one slot named twice may be
    mixed: only the padding slot is.

    Raises ValueError where the kernels do not know `dtype`, TypeError where one of the two is fp8 and the other not.
    """
    n = loc.numel()
    if n == 0:
        return
    launch = launch or hardware.of(loc.device).store
    fp8_format, in_hardware = hardware.fp8(dtype, loc.device)
    a, a_scale = _source(a, a_scale, dtype)
    b, b_scale = _source(b, b_scale, dtype)
    if fp8_format and a.dtype == b.dtype == torch.uint8:
        fp8_format, in_hardware = "", False  # codes already
    elif fp8_format and torch.uint8 in (a.dtype, b.dtype):
        raise TypeError("store_pair: of two tensors either both are fp8 already or neither is")
    a_width, b_width = a.shape[1] * a.shape[2], b.shape[1] * b.shape[2]
    block = min(next_power_of_2(max(a_width, b_width)), launch.elements)
    block_n = min(max(launch.elements // block, 1), next_power_of_2(n))
    parts = cdiv(a_width, block) + cdiv(b_width, block)
    store_pair_kernel[(cdiv(n, block_n), parts)](
        a, b, a_out, b_out, loc,
        1.0 if a_scale is None else a_scale, 1.0 if b_scale is None else b_scale, n,
        a.stride(0), a.stride(1), a_out.stride(0), b.stride(0), b.stride(1), b_out.stride(0),
        A_HEAD_DIM=a.shape[2], A_WIDTH=a_width, A_FLAT=_flat(a), A_SCALE=scale_kind(a_scale),
        B_HEAD_DIM=max(b.shape[2], 1), B_WIDTH=b_width, B_FLAT=_flat(b), B_SCALE=scale_kind(b_scale),
        FORMAT=fp8_format, IN_HARDWARE=in_hardware,
        CACHE=hardware.cache_modifier, EVICTION=hardware.eviction_policy,
        BLOCK_N=block_n, BLOCK=block,
        num_warps=launch.num_warps,
    )  # fmt: skip


def _source(x: torch.Tensor, scale: Scale, dtype: torch.dtype) -> tuple[torch.Tensor, Scale]:
    if x.stride(-1) != 1:
        x = x.contiguous()
    eight_bit = x.dtype.is_floating_point and x.dtype.itemsize == 1
    if x.dtype == dtype:
        return (x.view(torch.uint8) if eight_bit else x), None
    if eight_bit:
        x = x.float()  # another fp8 format than the pool's
    return x, float(scale) if isinstance(scale, int) else scale


def _flat(x: torch.Tensor) -> bool:
    return bool(x.shape[1] == 1 or x.stride(1) == x.shape[2])


def scale_kind(scale: Scale) -> str:
    """The kernels' word for what a scale is."""
    if scale is None:
        return "none"
    return "pointer" if isinstance(scale, torch.Tensor) else "value"
