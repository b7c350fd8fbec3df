"""The launch of a package's quantisation to fp8 with one scale per token, or per group of a token's values."""

from __future__ import annotations

from typing import Any

import torch
import triton

from sglang_platform.core.portable.triton.architecture import Launch
from sglang_platform.core.portable.triton.norm import warps
from sglang_platform.core.portable.triton.wrappers.hardware import Hardware

__all__ = ["quantise_per_token"]


def quantise_per_token(
    x: torch.Tensor,
    dtype: torch.dtype,
    *,
    hardware: Hardware,
    quantise_kernel: Any,
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
        block = triton.next_power_of_2(width)
        block_n = min(max(launch.elements * 4 // block, 1), triton.next_power_of_2(groups))
        fp8_format, in_hardware = hardware.fp8(dtype, x.device)
        quantise_kernel[(triton.cdiv(groups, block_n),)](
            rows, codes, scales, groups, rows.stride(0),
            WIDTH=width, PER_ROW=per_row, LARGEST=torch.finfo(dtype).max,
            FORMAT=fp8_format, IN_HARDWARE=in_hardware,
            BLOCK_N=block_n, BLOCK=block,
            num_warps=warps(block * block_n, launch),
        )  # fmt: skip
    return codes.view(dtype).view(x.shape), scales.view(*x.shape[:-1], per_row)
