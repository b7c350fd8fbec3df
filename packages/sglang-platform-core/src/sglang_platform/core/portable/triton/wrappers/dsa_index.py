"""The launch of a package's indexer of sparse attention: how much each cached token matters to each new one."""

from __future__ import annotations

from typing import Any

import torch
import triton

from sglang_platform.core.portable.triton.wrappers.hardware import Hardware

__all__ = ["index_logits"]


def index_logits(
    q: torch.Tensor,
    weights: torch.Tensor,
    index_buffer: torch.Tensor,
    table: torch.Tensor,
    rows: torch.Tensor,
    lengths: torch.Tensor,
    *,
    hardware: Hardware,
    index_logits_kernel: Any,
    page_size: int,
    width: int,
    key_dtype: torch.dtype = torch.float8_e4m3fn,
    runs: bool = False,
) -> torch.Tensor:
    """float32 [T, width]; element [t, s] is undefined for s >= lengths[t].

    q float32, float16 or bfloat16 [T, heads, D], D a power of two; weights float32 [T, heads]; index_buffer uint8
    [pages, page_size * (D + 4)], keys of `key_dtype`; table int32 [rows, C]; rows int [T]; lengths int [T], each at
    most width. runs: several tokens of a request follow each other, and share the reading of its keys. Raises
    ValueError where the kernels do not know `key_dtype`.
    """
    tokens, heads, dim = q.shape
    out = torch.empty((tokens, width), dtype=torch.float32, device=q.device)
    if tokens == 0 or width == 0:
        return out
    record = hardware.of(q.device)
    shape = record.index_shape(runs=runs, float32=q.dtype == torch.float32)
    fp8_format, in_hardware = hardware.fp8(key_dtype, q.device)
    index_logits_kernel[(triton.cdiv(tokens, shape.tile), triton.cdiv(width, shape.block_n))](
        q, weights, index_buffer, index_buffer.view(torch.float32), table, rows, lengths, out, tokens,
        q.stride(0), q.stride(1), weights.stride(0), index_buffer.stride(0), table.stride(0), out.stride(0),
        HEADS=heads, HEADS_P=max(16, triton.next_power_of_2(heads)), D=dim, PAGE=page_size,
        FORMAT=fp8_format, IN_HARDWARE=in_hardware, TILE=shape.tile, BLOCK_N=shape.block_n, **shape.options(),
    )  # fmt: skip
    return out
