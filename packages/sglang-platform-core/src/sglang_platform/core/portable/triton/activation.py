"""The gated activation of Llama's feed-forward layers (SwiGLU, Shazeer, 2020).

    out = x1 * sigmoid(x1) * x2,   x = (x1, x2)

in float32, rounded once; off by at most 8 * 2^-24 |out| before that.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sglang_platform.core.portable.triton.architecture import Launch
from sglang_platform.core.portable.triton.launch import cdiv, next_power_of_2, portable_shapes

__all__ = ["silu_and_mul", "silu_and_mul_kernel"]


@triton.jit(do_not_specialize=["rows"])
def silu_and_mul_kernel(
    x_ptr, out_ptr, rows, x_stride, WIDTH: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK: tl.constexpr
):
    """Grid (blocks of rows, blocks of columns). `x` [rows, 2 WIDTH], `out` [rows, WIDTH] contiguous."""
    row = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = (row < rows)[:, None] & (column < WIDTH)[None, :]
    at = x_ptr + row[:, None] * x_stride + column[None, :]
    gate = tl.load(at, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(at + WIDTH, mask=mask, other=0.0).to(tl.float32)
    value = gate / (1.0 + tl.exp(-gate)) * up
    tl.store(out_ptr + row[:, None] * WIDTH + column[None, :], value.to(out_ptr.dtype.element_ty), mask=mask)


def silu_and_mul(x: torch.Tensor, *, launch: Launch | None = None) -> torch.Tensor:
    """`x` [.., 2 I] -> [.., I], contiguous, of its dtype."""
    rows = x if x.dim() == 2 else x.reshape(-1, x.shape[-1])
    rows = rows if rows.stride(-1) == 1 else rows.contiguous()
    count, width = rows.shape[0], rows.shape[1] // 2
    out = torch.empty((count, width), dtype=x.dtype, device=x.device)
    if out.numel():
        launch = launch or portable_shapes(x.device).elementwise
        block = min(next_power_of_2(width), launch.elements)
        block_n = min(max(launch.elements // block, 1), next_power_of_2(count))
        silu_and_mul_kernel[(cdiv(count, block_n), cdiv(width, block))](
            rows, out, count, rows.stride(0),
            WIDTH=width, BLOCK_N=block_n, BLOCK=block,
            num_warps=launch.num_warps,
        )  # fmt: skip
    return out.view(*x.shape[:-1], width)
