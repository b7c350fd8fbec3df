"""Launches of decode attention as served models make them, for compiling without a device.

A package hands in its launch wrapper and the 8-bit type of its caches. The caches are as large as on a device (memory
that is never touched costs nothing), so that the compiler sees the offsets it will see there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from sglang_platform.conformance.kernels.served.launches import Launches

__all__ = ["decode_launches", "sparse_launches"]

PagedDecode = Callable[..., Any]
_SLOTS = 1 << 21


def _decode(
    paged_decode: PagedDecode,
    eight_bit: torch.dtype,
    q_heads: int,
    kv_heads: int,
    dim: int,
    *,
    batch: int = 32,
    values: int | None = None,
    dtype: torch.dtype = torch.bfloat16,
    fp8: bool = False,
    latent: bool = False,
    packed: bool = False,
    context: int = 32768,
    logit_cap: float = 0.0,
    window: int = -1,
    sinks: bool = False,
    page_size: int = 1,
) -> None:
    values = dim if values is None else values
    stored = torch.uint8 if packed else eight_bit if fp8 else dtype
    k = torch.empty(_SLOTS, kv_heads, 656 if packed else dim, dtype=stored)
    v = k[..., :values] if latent else torch.empty(_SLOTS, kv_heads, values, dtype=stored)
    scale = torch.ones(1) if fp8 and not packed else None
    paged_decode(
        torch.empty(batch, q_heads, dim, dtype=dtype),
        k,
        v,
        torch.empty(batch + 1, context, dtype=torch.int32),
        torch.empty(batch, dtype=torch.int64),
        torch.empty(batch, dtype=torch.int64),
        torch.empty(batch, q_heads, values, dtype=dtype),
        scale=dim**-0.5,
        logit_cap=logit_cap,
        window=window,
        sinks=torch.empty(q_heads, dtype=dtype) if sinks else None,
        k_scale=scale,
        v_scale=scale,
        packed=eight_bit if packed else None,
        page_size=page_size,
    )


def decode_launches(paged_decode: PagedDecode, eight_bit: torch.dtype) -> Launches:
    """By what is served; see `KernelDeclaration.launches`."""
    decode = partial(_decode, paged_decode, eight_bit)
    pages = partial(decode, page_size=64)
    half = torch.float16
    return {
        "gqa 32/8 x 128": lambda: decode(32, 8, 128),
        "gqa 32/8 x 128, batch 512": lambda: decode(32, 8, 128, batch=512),
        "gqa 32/8 x 128, fp16": lambda: decode(32, 8, 128, dtype=half),
        "gqa 32/8 x 128, fp8 cache": lambda: decode(32, 8, 128, fp8=True),
        "mqa 71/1 x 64": lambda: decode(71, 1, 64),
        "mha 32 x 128": lambda: decode(32, 32, 128),
        "gqa 64/8 x 64, sinks, window": lambda: decode(64, 8, 64, sinks=True, window=128),
        "gqa 16/8 x 256, cap, window": lambda: decode(16, 8, 256, logit_cap=50.0, window=4096),
        "gqa 48/8 x 192/128": lambda: decode(48, 8, 192, values=128),
        "mla 128 heads": lambda: decode(128, 1, 576, values=512, latent=True),
        "mla 16 heads": lambda: decode(16, 1, 576, values=512, latent=True),
        "mla 16 heads, fp8 cache": lambda: decode(16, 1, 576, values=512, latent=True, fp8=True),
        "gqa 32/8 x 128, pages": lambda: pages(32, 8, 128),
        "gqa 32/8 x 128, fp8 cache, pages": lambda: pages(32, 8, 128, fp8=True),
        "mqa 71/1 x 64, pages": lambda: pages(71, 1, 64),
        "mha 32 x 128, pages": lambda: pages(32, 32, 128),
        "gqa 64/8 x 64, sinks, pages": lambda: pages(64, 8, 64, sinks=True),
        "gqa 16/8 x 256, cap, pages": lambda: pages(16, 8, 256, logit_cap=50.0),
        "gqa 48/8 x 192/128, pages": lambda: pages(48, 8, 192, values=128),
        "mla 128 heads, pages": lambda: pages(128, 1, 576, values=512, latent=True),
        "mla 16 heads, pages": lambda: pages(16, 1, 576, values=512, latent=True),
        "mla 16 heads, fp8 cache, pages": lambda: pages(16, 1, 576, values=512, latent=True, fp8=True),
    }


def sparse_launches(paged_decode: PagedDecode, eight_bit: torch.dtype) -> Launches:
    """Over 2048 selected slots; see `KernelDeclaration.launches`."""
    decode = partial(_decode, paged_decode, eight_bit)
    return {
        "mla 128 heads": lambda: decode(128, 1, 576, values=512, latent=True, context=2048),
        "mla 128 heads, packed fp8": lambda: decode(
            128, 1, 576, values=512, latent=True, context=2048, packed=True
        ),
    }
