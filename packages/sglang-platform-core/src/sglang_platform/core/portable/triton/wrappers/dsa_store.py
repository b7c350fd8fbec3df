"""The launch of a package's store of the packed fp8 rows of sparse MLA (`core.memory.packed_fp8`)."""

from __future__ import annotations

from typing import Any

import torch
import triton

from sglang_platform.core.memory.packed_fp8 import TILE
from sglang_platform.core.portable.triton.architecture import Launch
from sglang_platform.core.portable.triton.wrappers.hardware import Hardware

__all__ = ["store_packed"]


def store_packed(
    nope: torch.Tensor,
    rope: torch.Tensor,
    out: torch.Tensor,
    loc: torch.Tensor,
    *,
    hardware: Hardware,
    store_packed_kernel: Any,
    dtype: torch.dtype,
    launch: Launch | None = None,
) -> None:
    """Pack `nope` [n, 1, rank] and `rope` [n, 1, r] into rows `loc` [n] of `out`, uint8 [slots, 1, row bytes].

    `dtype` is the fp8 type of the values; `rank` is a multiple of 128, `r` even. Raises ValueError where the kernels do
    not know `dtype`.
    """
    n = loc.numel()
    if n == 0:
        return
    launch = launch or hardware.of(loc.device).store
    nope = nope if nope.stride(-1) == 1 else nope.contiguous()
    rope = rope if rope.stride(-1) == 1 else rope.contiguous()
    rank, width = nope.shape[-1], rope.shape[-1]
    fp8_format, in_hardware = hardware.fp8(dtype, nope.device)
    block_n = min(max(launch.elements // TILE, 1), triton.next_power_of_2(n))
    grid = (triton.cdiv(n, block_n), rank // TILE + (1 if width else 0))
    store_packed_kernel[grid](
        nope, rope, out, out.view(torch.float32), out.view(torch.bfloat16), loc, n,
        nope.stride(0), rope.stride(0), out.stride(0),
        RANK=rank, ROPE=width, ROPE_BLOCK=triton.next_power_of_2(max(width, 1)),
        LARGEST=torch.finfo(dtype).max, FORMAT=fp8_format, IN_HARDWARE=in_hardware,
        BLOCK_N=block_n, TILE_WIDTH=TILE,
        num_warps=launch.num_warps,
    )  # fmt: skip
