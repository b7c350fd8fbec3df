"""Root-mean-square normalisation, with and without a residual (Zhang and Sennrich, 2019).

    s = x (+ residual),   y = s / sqrt(mean(s^2) + eps) * weight

in float32; y and the new residual s are rounded once. With H the row's length and u = 2^-24, the computed mean is
off by at most (log2(H) + 2) u relative (pairwise sum of squares), so y, before its rounding, by (log2(H) / 2 + 6) u.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sglang_platform.core.portable.triton.architecture import Launch
from sglang_platform.core.portable.triton.launch import cdiv, next_power_of_2, portable_shapes

__all__ = ["fused_add_rms_norm", "rms_norm", "rms_norm_kernel"]


@triton.jit(do_not_specialize=["rows"])
def rms_norm_kernel(
    x_ptr, residual_ptr, weight_ptr, out_ptr, rows, eps,
    x_stride, residual_stride, out_stride,
    WIDTH: tl.constexpr, RESIDUAL: tl.constexpr, ROUND_FIRST: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Grid (blocks of rows). `RESIDUAL` adds it and writes the sum back; `ROUND_FIRST` rounds before the weight."""
    row = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    column = tl.arange(0, BLOCK)
    mask = (row < rows)[:, None] & (column < WIDTH)[None, :]
    x = tl.load(x_ptr + row[:, None] * x_stride + column[None, :], mask=mask, other=0.0).to(tl.float32)
    if RESIDUAL:
        at = residual_ptr + row[:, None] * residual_stride + column[None, :]
        x += tl.load(at, mask=mask, other=0.0).to(tl.float32)
        tl.store(at, x.to(residual_ptr.dtype.element_ty), mask=mask)
    mean = tl.sum(x * x, axis=1) / WIDTH
    y = x * (1.0 / tl.sqrt(mean + eps))[:, None]
    weight = tl.load(weight_ptr + column, mask=column < WIDTH, other=0.0).to(tl.float32)
    if ROUND_FIRST:
        y = y.to(out_ptr.dtype.element_ty).to(tl.float32)
    y = y * weight[None, :]
    tl.store(out_ptr + row[:, None] * out_stride + column[None, :], y.to(out_ptr.dtype.element_ty), mask=mask)


def rms_norm(
    x: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    *,
    round_first: bool = False,
    launch: Launch | None = None,
) -> torch.Tensor:
    """The normalised `x` [.., H], contiguous, of its dtype; `weight` [H]. `x` may have any strides.

    `round_first` rounds to the dtype before the weight is multiplied in, as some models are trained.
    """
    rows = _rows(x)
    out = torch.empty(rows.shape, dtype=x.dtype, device=x.device)
    _launch(rows, None, weight, out, eps, launch, round_first)
    return out.view(x.shape)


def fused_add_rms_norm(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    *,
    round_first: bool = False,
    launch: Launch | None = None,
) -> None:
    """In place: `residual` becomes `x + residual`, `x` that sum normalised. Both [n, H] with contiguous rows."""
    _launch(x, residual, weight, x, eps, launch, round_first)


def _rows(x: torch.Tensor) -> torch.Tensor:
    rows = x if x.dim() == 2 else x.reshape(-1, x.shape[-1])
    return rows if rows.stride(-1) == 1 else rows.contiguous()


def _launch(
    x: torch.Tensor,
    residual: torch.Tensor | None,
    weight: torch.Tensor,
    out: torch.Tensor,
    eps: float,
    launch: Launch | None,
    round_first: bool,
) -> None:
    rows, width = x.shape
    if rows == 0 or width == 0:
        return
    launch = launch or portable_shapes(x.device).reduce
    block = next_power_of_2(width)
    # Short rows (the norms of single heads) share a program, so that its threads have work.
    block_n = min(max(launch.elements * 4 // block, 1), next_power_of_2(rows))
    second = out if residual is None else residual
    rms_norm_kernel[(cdiv(rows, block_n),)](
        x, second, weight, out, rows, eps,
        x.stride(0), second.stride(0), out.stride(0),
        WIDTH=width, RESIDUAL=residual is not None, ROUND_FIRST=round_first,
        BLOCK_N=block_n, BLOCK=block,
        num_warps=warps(block * block_n, launch),
    )  # fmt: skip


def warps(elements: int, launch: Launch) -> int:
    """One warp per `launch.elements`, a power of two up to `launch.num_warps`."""
    return int(max(1, min(launch.num_warps, next_power_of_2(cdiv(elements, launch.elements)))))
