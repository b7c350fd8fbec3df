"""The launch of a package's store of two tensors at rows of a cache, divided by their scales and cast on the way."""

from __future__ import annotations

from typing import Any

import torch
import triton

from sglang_platform.core.memory.rows import Scale
from sglang_platform.core.portable.triton.architecture import Launch
from sglang_platform.core.portable.triton.wrappers.hardware import Hardware

__all__ = ["scale_kind", "store_pair"]


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
    store_pair_kernel: Any,
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
    block = min(triton.next_power_of_2(max(a_width, b_width)), launch.elements)
    block_n = min(max(launch.elements // block, 1), triton.next_power_of_2(n))
    parts = triton.cdiv(a_width, block) + triton.cdiv(b_width, block)
    store_pair_kernel[(triton.cdiv(n, block_n), parts)](
        a, b, a_out, b_out, loc,
        1.0 if a_scale is None else a_scale, 1.0 if b_scale is None else b_scale, n,
        a.stride(0), a.stride(1), a_out.stride(0), b.stride(0), b.stride(1), b_out.stride(0),
        A_HEAD_DIM=a.shape[2], A_WIDTH=a_width, A_FLAT=_flat(a), A_SCALE=scale_kind(a_scale),
        B_HEAD_DIM=max(b.shape[2], 1), B_WIDTH=b_width, B_FLAT=_flat(b), B_SCALE=scale_kind(b_scale),
        FORMAT=fp8_format, IN_HARDWARE=in_hardware,
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
