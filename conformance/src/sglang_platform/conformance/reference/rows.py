"""Rows of a KV buffer: what one token keeps in one layer."""

from __future__ import annotations

import torch

__all__ = ["allocate", "as_numbers", "as_stored", "storage"]

FP8 = (torch.float8_e4m3fn, torch.float8_e5m2)


def storage(dtype: torch.dtype) -> torch.dtype:
    """What a buffer of `dtype` is allocated as: torch cannot index fp8 tensors, so these are kept as bytes."""
    return torch.uint8 if dtype in FP8 else dtype


def allocate(pool: object, *row: int) -> list[torch.Tensor]:
    """One zeroed buffer per layer, [size + page_size, *row]: page 0 is the padding page."""
    slots = pool.size + pool.page_size  # type: ignore[attr-defined]
    return [
        torch.zeros((slots, *row), dtype=storage(pool.dtype), device=pool.device)  # type: ignore[attr-defined]
        for _ in range(pool.layer_num)  # type: ignore[attr-defined]
    ]


def as_stored(
    rows: torch.Tensor, dtype: torch.dtype, scale: float | torch.Tensor | None = None
) -> torch.Tensor:
    """`rows / scale` in `dtype`, viewed as the buffer holds it. Rows of that dtype are scaled already."""
    if rows.dtype != dtype:
        rows = rows.float()
        if scale is not None:
            rows = rows / scale
        if dtype in FP8:
            largest = torch.finfo(dtype).max
            rows = rows.clamp(-largest, largest)
        rows = rows.to(dtype)
    return rows.contiguous().view(storage(dtype))


def as_numbers(buffer: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The buffer as a tensor of `dtype`, over the same memory."""
    return buffer.view(dtype)
