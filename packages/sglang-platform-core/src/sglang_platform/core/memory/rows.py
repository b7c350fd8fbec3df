"""Rows of a KV buffer: storing them at given slots, moving them, casting them to the stored dtype.

A buffer is [slots, ...]; a row is what one token keeps in it. Locations are int64 or int32 tensors [n] on the
buffer's device. Plain torch operations that every device has; nothing waits for the device.
"""

from __future__ import annotations

from typing import TypeAlias

import torch

__all__ = ["FP8_DTYPES", "Scale", "cast_rows", "move_rows", "storage_dtype", "store_rows"]

FP8_DTYPES = (torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz)

Scale: TypeAlias = "float | torch.Tensor | None"

# From this many rows on, the CPU copies them faster as 8-byte words than element by element.
_WIDE_FROM = 16


def storage_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which a buffer of `dtype` is allocated: uint8 for fp8, since indexed writes do not support fp8."""
    return torch.uint8 if dtype in FP8_DTYPES else dtype


def cast_rows(rows: torch.Tensor, dtype: torch.dtype, scale: Scale = None) -> torch.Tensor:
    """`rows / scale` as `dtype`; rows already of that dtype are returned unchanged, as the caller has scaled them.

    The input is not changed. fp8 saturates: values beyond its range become its largest value, NaN stays NaN.
    """
    if rows.dtype == dtype:
        return rows
    if rows.dtype in FP8_DTYPES:
        rows = rows.float()  # fp8 has no arithmetic
    if scale is not None:
        rows = rows.float() / scale  # a quotient rounded to a narrower type would be rounded twice
    if dtype in FP8_DTYPES:
        largest = torch.finfo(dtype).max
        rows = rows.clamp(-largest, largest)
    return rows.to(dtype)


def store_rows(buffer: torch.Tensor, loc: torch.Tensor, rows: torch.Tensor) -> None:
    """`buffer[loc[i]] = rows[i]`; `rows` [n, ...] has the buffer's dtype and row shape, any strides.

    A slot named twice keeps one of its rows. On the CPU a slot outside the buffer raises IndexError.
    """
    if buffer.device.type != "cpu":
        buffer[loc] = rows
        return
    if loc.dtype != torch.int64:
        loc = loc.long()
    if loc.numel() >= _WIDE_FROM and _divides_into_words(buffer):
        rows = rows.contiguous()
        buffer, rows = _words(buffer), _words(rows if _divides_into_words(rows) else rows.clone())
    buffer.index_copy_(0, loc, rows)


def _divides_into_words(rows: torch.Tensor) -> bool:
    size = rows.element_size()
    return bool(
        rows.is_contiguous() and rows[0].numel() * size % 8 == 0 and rows.storage_offset() * size % 8 == 0
    )


def _words(rows: torch.Tensor) -> torch.Tensor:
    return rows.view(torch.uint8).view(rows.shape[0], -1).view(torch.int64)


def move_rows(buffer: torch.Tensor, tgt_loc: torch.Tensor, src_loc: torch.Tensor) -> None:
    """`buffer[tgt_loc[i]] = buffer[src_loc[i]]`, as if all were read before any is written."""
    store_rows(buffer, tgt_loc, buffer.index_select(0, src_loc))
