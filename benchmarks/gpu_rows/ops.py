"""Fused ops against torch: each reads its input and writes its output once, which is the floor."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from gpu_rows import Built, Row, filled
from gpu_rows.package import architectures, kernel, native_fp8
from sglang_platform.core.portable.triton import activation, norm, rotary

__all__ = ["rows"]

OURS = "sglang_platform"
_BF16 = torch.bfloat16


def rows() -> Iterator[Row]:
    """Llama-3.1-8B's sizes in a prefill chunk, where the aim is 90 % of the copy bandwidth, and at a decode batch."""
    for n in (8192, 64):
        for name, check, build in (
            ("rms_norm", "rms_norm", _rms_norm),
            ("fused_add_rms_norm", "fused_add_rms_norm", _fused_add_rms_norm),
            ("fp8 per token", "quantise_per_token", _quantise),
        ):
            case: dict[str, Any] = {"rows": n, "width": 4096}
            yield Row(name, case, "memory", 4 * n * 4096 * 2, partial(build, n), (check,))
        case = {"rows": n, "width": 14336}
        yield Row("silu_and_mul", case, "memory", 3 * n * 14336 * 2, partial(_silu, n), ("silu_and_mul",))
        for neox in (True, False):
            name = f"rotary {'neox' if neox else 'gptj'}"
            case = {"tokens": n, "heads": "32+8", "dim": 128}
            yield Row(
                name, case, "memory", 2 * n * 40 * 128 * 2, partial(_rotary, n, neox), ("rotary_embedding",)
            )


def _shapes(device: torch.device) -> Any:
    return architectures().shapes(device)


def _rms_norm(n: int, device: torch.device) -> Built:
    x, weight = filled((n, 4096), _BF16, device), filled((4096,), _BF16, device)
    built = Built({OURS: lambda: norm.rms_norm(x, weight, 1e-6, launch=_shapes(device).reduce)}, 2 * x.nbytes)
    built.add("torch", lambda: lambda: F.rms_norm(x, (4096,), weight, 1e-6))
    return built


def _fused_add_rms_norm(n: int, device: torch.device) -> Built:
    x, residual, weight = (filled(shape, _BF16, device) for shape in ((n, 4096), (n, 4096), (4096,)))
    built = Built(
        {OURS: lambda: norm.fused_add_rms_norm(x, residual, weight, 1e-6, launch=_shapes(device).reduce)},
        4 * x.nbytes,
    )
    built.add("torch", lambda: lambda: F.rms_norm(residual.add_(x), (4096,), weight, 1e-6))
    built.add("flashinfer", lambda: partial(_flashinfer().fused_add_rmsnorm, x, residual, weight, 1e-6))
    return built


def _quantise(n: int, device: torch.device) -> Built:
    x, dtype = filled((n, 4096), _BF16, device), native_fp8()
    built = Built({OURS: lambda: kernel("hardware:quantise_per_token")(x, dtype)}, x.nbytes * 3 // 2)
    built.add("torch", lambda: lambda: _quantised_by_torch(x, dtype))
    return built


def _quantised_by_torch(x: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    scales = x.float().abs().amax(-1, keepdim=True) / torch.finfo(dtype).max
    return (x / scales).to(dtype), scales


def _silu(n: int, device: torch.device) -> Built:
    x = filled((n, 2 * 14336), _BF16, device)
    built = Built(
        {OURS: lambda: activation.silu_and_mul(x, launch=_shapes(device).elementwise)}, x.nbytes * 3 // 2
    )
    built.add("torch", lambda: lambda: F.silu(x[:, :14336]) * x[:, 14336:])
    built.add("flashinfer", lambda: partial(_flashinfer().silu_and_mul, x))
    return built


def _rotary(n: int, neox: bool, device: torch.device) -> Built:
    query, key = filled((n, 4096), _BF16, device), filled((n, 1024), _BF16, device)
    cache, positions = filled((8192, 128), torch.float32, device), torch.arange(n, device=device) % 8192
    ours, with_torch = (
        partial(rotate, positions, query, key, 128, cache, neox=neox)
        for rotate in (
            partial(rotary.rotary_embedding, launch=_shapes(device).elementwise),
            _rotated_by_torch,
        )
    )
    built = Built({OURS: ours}, 2 * (query.nbytes + key.nbytes))
    built.add("torch", lambda: with_torch)
    return built


def _rotated_by_torch(
    positions: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    head_dim: int,
    cache: torch.Tensor,
    *,
    neox: bool,
) -> None:
    cos, sin = cache[positions].unsqueeze(1).chunk(2, dim=-1)
    for x in (query, key):
        heads = x.unflatten(1, (-1, head_dim))
        first, second = heads.chunk(2, dim=-1) if neox else (heads[..., ::2], heads[..., 1::2])
        turned = first * cos - second * sin, second * cos + first * sin
        first.copy_(turned[0])
        second.copy_(turned[1])


def _flashinfer():  # type: ignore[no-untyped-def]
    import flashinfer

    return flashinfer
