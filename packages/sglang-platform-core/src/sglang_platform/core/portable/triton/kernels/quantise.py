"""Quantisation to fp8 with one scale per token, or per group of a token's values.

    scale = max |x| / largest,   codes = fp8(x / scale)

A row of zeros has scale 1. Division and scale are IEEE float32 and the cast rounds to nearest even, so codes and scales
are bit for bit those of the same formula in torch.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sglang_platform.core.portable.triton.architecture import Launch
from sglang_platform.core.portable.triton.kernels.fp8_codes import scaled_codes
from sglang_platform.core.portable.triton.launch import cdiv, next_power_of_2
from sglang_platform.core.portable.triton.norm import warps
from sglang_platform.core.portable.triton.wrappers.hardware import Hardware

__all__ = ["quantise_kernel", "quantise_per_token"]


@triton.jit(do_not_specialize=["rows"])
def quantise_kernel(
    x_ptr, codes_ptr, scales_ptr, rows, x_stride,
    WIDTH: tl.constexpr, PER_ROW: tl.constexpr, LARGEST: tl.constexpr,
    FORMAT: tl.constexpr, IN_HARDWARE: tl.constexpr, CACHE: tl.constexpr, EVICTION: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Grid (blocks of groups). A row of `x` holds PER_ROW groups of WIDTH values; `rows` counts groups in all."""
    group = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    column = tl.arange(0, BLOCK)
    live = group < rows
    mask = live[:, None] & (column < WIDTH)[None, :]
    start = (group // PER_ROW) * x_stride + (group % PER_ROW) * WIDTH
    row = x_ptr + start[:, None] + column[None, :]
    x = tl.load(row, mask=mask, other=0.0, cache_modifier=CACHE, eviction_policy=EVICTION)
    codes, scale = scaled_codes(x.to(tl.float32), LARGEST, FORMAT, IN_HARDWARE)
    tl.store(codes_ptr + group[:, None] * WIDTH + column[None, :], codes, mask=mask)
    tl.store(scales_ptr + group, scale, mask=live)


def quantise_per_token(
    x: torch.Tensor,
    dtype: torch.dtype,
    *,
    hardware: Hardware,
    group_size: int | None = None,
    launch: Launch | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`x` [.., H] as `dtype` (fp8) [.., H] and float32 scales [.., 1], or [.., H / group_size].

    Raises ValueError where `group_size` does not divide H, or the kernels do not know `dtype`.
    """
    width = group_size or max(x.shape[-1], 1)
    if x.shape[-1] % width:
        raise ValueError(f"groups of {width} do not divide a row of {x.shape[-1]} values")
    rows = x if x.dim() == 2 else x.reshape(-1, x.shape[-1])
    rows = rows if rows.stride(-1) == 1 else rows.contiguous()
    per_row = x.shape[-1] // width
    codes = torch.empty(rows.shape, dtype=torch.uint8, device=x.device)
    scales = torch.empty((rows.shape[0], per_row), dtype=torch.float32, device=x.device)
    groups = scales.numel()
    if groups:
        launch = launch or hardware.of(x.device).quantise
        block = next_power_of_2(width)
        block_n = min(max(launch.elements * 4 // block, 1), next_power_of_2(groups))
        fp8_format, in_hardware = hardware.fp8(dtype, x.device)
        quantise_kernel[(cdiv(groups, block_n),)](
            rows, codes, scales, groups, rows.stride(0),
            WIDTH=width, PER_ROW=per_row, LARGEST=torch.finfo(dtype).max,
            FORMAT=fp8_format, IN_HARDWARE=in_hardware,
            CACHE=hardware.cache_modifier, EVICTION=hardware.eviction_policy, BLOCK_N=block_n, BLOCK=block,
            num_warps=warps(block * block_n, launch),
        )  # fmt: skip
    return codes.view(dtype).view(x.shape), scales.view(*x.shape[:-1], per_row)
