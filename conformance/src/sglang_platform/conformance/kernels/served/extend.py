"""Launches of extend attention as served models make them, for compiling without a device; see `decode.py`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from sglang_platform.conformance.kernels.served.launches import Launches

__all__ = ["extend_launches"]

_SLOTS = 1 << 21


def _extend(
    paged_extend: Callable[..., Any],
    eight_bit: torch.dtype,
    q_heads: int,
    kv_heads: int,
    dim: int,
    *,
    tokens: int = 4096,
    values: int | None = None,
    fp8: bool = False,
    latent: bool = False,
    logit_cap: float = 0.0,
    window: int = -1,
    sinks: bool = False,
) -> None:
    values = dim if values is None else values
    dtype = torch.bfloat16
    k = torch.empty(_SLOTS, kv_heads, dim, dtype=eight_bit if fp8 else dtype)
    v = k[..., :values] if latent else torch.empty(_SLOTS, kv_heads, values, dtype=k.dtype)
    # Queries, keys and values as they come from one projection, side by side.
    width = q_heads * dim + kv_heads * (dim + values)
    projected = torch.empty(tokens, width, dtype=dtype)
    q, k_new, v_new = projected.split((q_heads * dim, kv_heads * dim, kv_heads * values), dim=1)
    scale = torch.ones(1) if fp8 else None
    paged_extend(
        q.view(tokens, q_heads, dim),
        None if latent else k_new.view(tokens, kv_heads, dim),
        None if latent else v_new.view(tokens, kv_heads, values),
        k,
        v,
        torch.empty(9, 32768, dtype=torch.int32),
        torch.empty(8, dtype=torch.int64),
        torch.empty(9, dtype=torch.int32),
        torch.empty(8, dtype=torch.int32),
        torch.empty(tokens, q_heads, values, dtype=dtype),
        max_new=tokens // 4,
        scale=dim**-0.5,
        logit_cap=logit_cap,
        window=window,
        sinks=torch.empty(q_heads, dtype=dtype) if sinks else None,
        k_scale=scale,
        v_scale=scale,
    )


def extend_launches(paged_extend: Callable[..., Any], eight_bit: torch.dtype) -> Launches:
    """By what is served; see `KernelDeclaration.launches`."""
    extend = partial(_extend, paged_extend, eight_bit)
    return {
        "gqa 32/8 x 128": lambda: extend(32, 8, 128),
        "gqa 32/8 x 128, fp8 cache": lambda: extend(32, 8, 128, fp8=True),
        "gqa 64/8 x 64, sinks, window": lambda: extend(64, 8, 64, sinks=True, window=128),
        "gqa 16/8 x 256, cap, window": lambda: extend(16, 8, 256, logit_cap=50.0, window=4096),
        "mha 16 x 192/128": lambda: extend(16, 16, 192, values=128),
        "mla 16 heads": lambda: extend(16, 1, 576, values=512, latent=True),
    }
