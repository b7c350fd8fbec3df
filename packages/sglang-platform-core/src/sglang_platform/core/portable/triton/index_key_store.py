"""Storing the DSA indexer's key of each token: its 8-bit codes and float32 scales go to two places of its page.

Bytes are copied as they come, so this is the same on every device. The layout is `core.memory.index_keys`.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sglang_platform.core.memory.rows import FP8_DTYPES
from sglang_platform.core.portable.triton.architecture import Launch
from sglang_platform.core.portable.triton.launch import cdiv, next_power_of_2, portable_shapes

__all__ = ["store_index_keys", "store_index_keys_kernel"]


@triton.jit(do_not_specialize=["n"])
def store_index_keys_kernel(
    keys_ptr, scales_ptr, out_ptr, scales_out_ptr, loc_ptr, n,
    keys_stride, scales_stride, page_bytes,
    PER_PAGE: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCKS: tl.constexpr,
    BLOCK_DIM: tl.constexpr, BLOCK_BLOCKS: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Grid (blocks of tokens). `keys` uint8 [n, HEAD_DIM], `scales` float32 [n, BLOCKS]; `out` is the buffer as bytes,
    `scales_out` the same memory as float32."""
    tokens = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    live = tokens < n
    slots = tl.load(loc_ptr + tokens, mask=live, other=0).to(tl.int64)
    page, within = slots // PER_PAGE, slots % PER_PAGE
    column = tl.arange(0, BLOCK_DIM)
    mask = live[:, None] & (column < HEAD_DIM)[None, :]
    keys = tl.load(keys_ptr + tokens[:, None] * keys_stride + column[None, :], mask=mask)
    tl.store(out_ptr + (page * page_bytes + within * HEAD_DIM)[:, None] + column[None, :], keys, mask=mask)
    block = tl.arange(0, BLOCK_BLOCKS)
    mask = live[:, None] & (block < BLOCKS)[None, :]
    scales = tl.load(scales_ptr + tokens[:, None] * scales_stride + block[None, :], mask=mask)
    at = page * (page_bytes // 4) + PER_PAGE * HEAD_DIM // 4 + within * BLOCKS
    tl.store(scales_out_ptr + at[:, None] + block[None, :], scales, mask=mask)


def store_index_keys(
    keys: torch.Tensor,
    scales: torch.Tensor,
    out: torch.Tensor,
    loc: torch.Tensor,
    *,
    page_size: int,
    launch: Launch | None = None,
) -> None:
    """Store fp8 `keys` [n, head_dim] (or their bytes) and float32 `scales` [n] or [n, head_dim / 128] at slots `loc`.

    `out` is a layer's buffer, uint8 [pages, page_size * (head_dim + 4 * head_dim / 128)].
    """
    n = loc.numel()
    if n == 0:
        return
    launch = launch or portable_shapes(loc.device).scatter
    keys = keys.view(torch.uint8) if keys.dtype in FP8_DTYPES else keys
    keys = keys if keys.stride(-1) == 1 else keys.contiguous()
    scales = scales.reshape(n, -1).float()
    scales = scales if scales.stride(-1) == 1 else scales.contiguous()
    head_dim, blocks = keys.shape[-1], scales.shape[-1]
    block_dim = next_power_of_2(head_dim)
    block_n = min(max(launch.elements // block_dim, 1), next_power_of_2(n))
    store_index_keys_kernel[(cdiv(n, block_n),)](
        keys, scales, out, out.view(torch.float32), loc, n,
        keys.stride(0), scales.stride(0), out.stride(0),
        PER_PAGE=page_size, HEAD_DIM=head_dim, BLOCKS=blocks,
        BLOCK_DIM=block_dim, BLOCK_BLOCKS=next_power_of_2(blocks), BLOCK_N=block_n,
        num_warps=launch.num_warps,
    )  # fmt: skip
