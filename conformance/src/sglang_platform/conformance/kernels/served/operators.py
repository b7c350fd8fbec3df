"""Launches of the portable kernels as served models make them, for compiling without a device; see `memory.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from sglang_platform.conformance.kernels.served.launches import Launches

__all__ = [
    "activation",
    "decode_step",
    "extend_step",
    "index_keys",
    "normalisation",
    "residual_normalisation",
    "rotation",
]

_BF16 = torch.bfloat16


def index_keys(store_index_keys: Callable[..., Any]) -> Launches:
    def store(n: int) -> None:
        keys, scales = torch.zeros((n, 128), dtype=torch.uint8), torch.zeros((n, 1))
        out = torch.zeros((64, 64 * 132), dtype=torch.uint8)
        store_index_keys(keys, scales, out, torch.zeros(n, dtype=torch.int64), page_size=64)

    return {"decode": lambda: store(64), "prefill": lambda: store(8192)}


def extend_step(extend_slots: Callable[..., Any]) -> Launches:
    def extend(batch: int, total: int) -> None:
        prefix, seq, last = (torch.zeros(batch, dtype=torch.int64) for _ in range(3))
        pages, out = torch.zeros(total // 16, dtype=torch.int64), torch.zeros(total, dtype=torch.int64)
        extend_slots(prefix, seq, last, pages, out, page_size=16)

    return {
        "16 requests, 8192 tokens": lambda: extend(16, 8192),
        "1 request, 64 tokens": lambda: extend(1, 64),
    }


def decode_step(decode_slots: Callable[..., Any]) -> Launches:
    def decode(batch: int) -> None:
        seq, last, pages, out = (torch.zeros(batch, dtype=torch.int64) for _ in range(4))
        decode_slots(seq, last, pages, out, page_size=16)

    return {
        "8 requests": lambda: decode(8),
        "256 requests": lambda: decode(256),
        "4096 requests": lambda: decode(4096),
    }


def normalisation(rms_norm: Callable[..., Any]) -> Launches:
    def norm(rows: int, width: int) -> None:
        rms_norm(torch.zeros((rows, width), dtype=_BF16), torch.zeros(width, dtype=_BF16), 1e-6)

    return {
        "4096, decode": lambda: norm(64, 4096),
        "7168, prefill": lambda: norm(8192, 7168),
        "heads of 128": lambda: norm(8192 * 8, 128),
    }


def residual_normalisation(fused_add_rms_norm: Callable[..., Any]) -> Launches:
    def norm(rows: int, width: int) -> None:
        x, residual = (torch.zeros((rows, width), dtype=_BF16) for _ in range(2))
        fused_add_rms_norm(x, residual, torch.zeros(width, dtype=_BF16), 1e-6)

    return {"4096, decode": lambda: norm(64, 4096), "7168, prefill": lambda: norm(8192, 7168)}


def activation(silu_and_mul: Callable[..., Any]) -> Launches:
    def silu(rows: int, width: int) -> None:
        silu_and_mul(torch.zeros((rows, 2 * width), dtype=_BF16))

    return {"14336, decode": lambda: silu(64, 14336), "14336, prefill": lambda: silu(8192, 14336)}


def rotation(rotary_embedding: Callable[..., Any]) -> Launches:
    def rotate(tokens: int, heads: int, head_dim: int, rotated: int, neox: bool) -> None:
        query = torch.zeros((tokens, heads * head_dim), dtype=_BF16)
        key = torch.zeros((tokens, 8 * head_dim), dtype=_BF16)
        cache = torch.zeros((4096, rotated))
        rotary_embedding(torch.zeros(tokens, dtype=torch.int64), query, key, head_dim, cache, neox=neox)

    return {
        "neox, 32 heads of 128": lambda: rotate(64, 32, 128, 128, True),
        "gptj, 32 heads of 64": lambda: rotate(64, 32, 64, 64, False),
    }
