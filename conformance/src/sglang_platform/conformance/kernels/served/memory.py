"""Launches of KV store, move and quantisation as served models make them, for compiling without a device.

Shapes are those of Llama-3.1-8B (8 KV heads of 128) and of DeepSeek-V3 (rank 512, 64 rotated), at a decode batch and in
a prefill chunk. A package hands in its launch wrapper and the 8-bit type of its caches. Tensors are on the CPU and
nothing is executed, so their content does not matter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from sglang_platform.conformance.kernels.served.launches import Launches
from sglang_platform.core.portable.triton.buffer_table import Rows

__all__ = ["moved_rows", "packed_rows", "quantisation", "rotated_keys", "stored_rows"]

_BF16 = torch.bfloat16


def stored_rows(store_pair: Callable[..., None], eight_bit: torch.dtype) -> Launches:
    def store(
        n: int, heads: int, a: int, b: int, dtype: torch.dtype, scale: torch.Tensor | None = None
    ) -> None:
        kept = torch.uint8 if dtype.itemsize == 1 else dtype
        out = torch.zeros((4096, heads, a), dtype=kept), torch.zeros((4096, heads, b), dtype=kept)
        if heads == 1:
            rows = torch.zeros((4096, 1, a + b), dtype=kept)
            out = rows[..., :a], rows[..., a:]
        k, v = (torch.zeros((n, heads, width), dtype=_BF16) for width in (a, b))
        store_pair(k, v, out[0], out[1], torch.zeros(n, dtype=torch.int64), scale, scale, dtype=dtype)

    return {
        "8 heads of 128, decode": lambda: store(64, 8, 128, 128, _BF16),
        "8 heads of 128, prefill": lambda: store(8192, 8, 128, 128, _BF16),
        "8 heads of 128, prefill, fp8 with scales": lambda: store(
            8192, 8, 128, 128, eight_bit, torch.ones(1)
        ),
        "latent 512 + 64, prefill": lambda: store(8192, 1, 512, 64, _BF16),
        "latent 512 + 64, prefill, fp8": lambda: store(8192, 1, 512, 64, eight_bit),
    }


def rotated_keys(rotate_and_store: Callable[..., None], eight_bit: torch.dtype) -> Launches:
    def store(n: int, heads: int, dim: int, turned: int, dtype: torch.dtype, neox: bool = True) -> None:
        qkv = torch.zeros((n, (heads + 16) * dim), dtype=_BF16)
        query, key, value = qkv.split((heads * dim, 8 * dim, 8 * dim), dim=1)
        k_out, v_out = (torch.zeros((4096, 8 * dim), dtype=dtype) for _ in range(2))
        positions, loc = (torch.zeros(n, dtype=torch.int64) for _ in range(2))
        scale = torch.ones(1) if dtype.itemsize == 1 else None
        table = torch.zeros((4096, turned))
        rotate_and_store(positions, query, key, value, dim, table, k_out, v_out, loc, scale, scale, neox=neox)

    return {
        "32 heads of 128, decode": lambda: store(64, 32, 128, 128, _BF16),
        "64 heads of 64, prefill": lambda: store(8192, 64, 64, 64, _BF16),
        "32 heads of 128, prefill, fp8 with scales": lambda: store(8192, 32, 128, 128, eight_bit),
        "32 heads of 128, half turned in pairs, fp8": lambda: store(8192, 32, 128, 64, eight_bit, False),
    }


def moved_rows(move_rows: Callable[..., None]) -> Launches:
    def move(n: int, *widths: int) -> None:
        buffers = [Rows(torch.zeros((1024, width), dtype=_BF16)) for width in widths]
        move_rows(buffers, torch.zeros(n, dtype=torch.int64), torch.zeros(n, dtype=torch.int64))

    return {
        "64 rows of 1024": lambda: move(64, 1024, 1024),
        "512 rows of 1024": lambda: move(512, 1024, 1024),
        "64 rows of 576": lambda: move(64, 576),
    }


def packed_rows(store_packed: Callable[..., None], eight_bit: torch.dtype) -> Launches:
    def store(n: int) -> None:
        nope, rope = torch.zeros((n, 1, 512), dtype=_BF16), torch.zeros((n, 1, 64), dtype=_BF16)
        out = torch.zeros((1024, 1, 656), dtype=torch.uint8)
        store_packed(nope, rope, out, torch.zeros(n, dtype=torch.int64), dtype=eight_bit)

    return {"decode": lambda: store(64), "prefill": lambda: store(8192)}


def quantisation(quantise_per_token: Callable[..., Any], eight_bit: torch.dtype) -> Launches:
    def quantise(rows: int, width: int, group: int | None) -> None:
        quantise_per_token(torch.zeros((rows, width), dtype=_BF16), eight_bit, group_size=group)

    return {
        "4096 per token": lambda: quantise(64, 4096, None),
        "7168 per token, prefill": lambda: quantise(8192, 7168, None),
        "7168 in groups of 128": lambda: quantise(8192, 7168, 128),
    }
