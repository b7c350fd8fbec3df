"""Launches of the decode kernels as served models make them, for compiling without a device.

The caches are as large as on a device (memory that is never touched costs nothing), so that the compiler sees the
offsets it will see there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from sglang_platform.core.torch_cuda.kernels.decode import paged_decode
from sglang_platform.core.portable.triton.architecture import pretended

__all__ = ["decode_launches", "native_fp8", "sparse_launches"]

_SLOTS = 1 << 21


def native_fp8() -> torch.dtype:
    """The 8-bit format that a platform stores on the target at hand: gfx942 has e4m3fnuz, all others e4m3fn."""
    target = pretended()
    return torch.float8_e4m3fnuz if target is not None and target.name == "gfx942" else torch.float8_e4m3fn


def _decode(
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
) -> None:
    values = dim if values is None else values
    stored = torch.uint8 if packed else native_fp8() if fp8 else dtype
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
        packed=native_fp8() if packed else None,
    )


def decode_launches() -> Mapping[str, Callable[[], None]]:
    """By what is served; see `KernelDeclaration.launches`."""
    half = torch.float16
    return {
        "gqa 32/8 x 128": lambda: _decode(32, 8, 128),
        "gqa 32/8 x 128, batch 512": lambda: _decode(32, 8, 128, batch=512),
        "gqa 32/8 x 128, fp16": lambda: _decode(32, 8, 128, dtype=half),
        "gqa 32/8 x 128, fp8 cache": lambda: _decode(32, 8, 128, fp8=True),
        "mqa 71/1 x 64": lambda: _decode(71, 1, 64),
        "mha 32 x 128": lambda: _decode(32, 32, 128),
        "gqa 64/8 x 64, sinks, window": lambda: _decode(64, 8, 64, sinks=True, window=128),
        "gqa 16/8 x 256, cap, window": lambda: _decode(16, 8, 256, logit_cap=50.0, window=4096),
        "gqa 48/8 x 192/128": lambda: _decode(48, 8, 192, values=128),
        "mla 128 heads": lambda: _decode(128, 1, 576, values=512, latent=True),
        "mla 16 heads": lambda: _decode(16, 1, 576, values=512, latent=True),
        "mla 16 heads, fp8 cache": lambda: _decode(16, 1, 576, values=512, latent=True, fp8=True),
    }


def sparse_launches() -> Mapping[str, Callable[[], None]]:
    """Over 2048 selected slots; see `KernelDeclaration.launches`."""
    return {
        "mla 128 heads": lambda: _decode(128, 1, 576, values=512, latent=True, context=2048),
        "mla 128 heads, packed fp8": lambda: _decode(
            128, 1, 576, values=512, latent=True, context=2048, packed=True
        ),
    }
