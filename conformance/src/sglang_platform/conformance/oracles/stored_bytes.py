"""The bytes that a value must be stored as, for every dtype a KV pool may have.

Conversions are written out here (numpy and the definition of the format), so that a device's cast is compared with
something else than torch's.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from sglang_platform.conformance.oracles.fp8 import FP8, encode_saturating

__all__ = ["raw_bytes", "stored_bytes"]

Bytes = npt.NDArray[np.uint8]


def raw_bytes(rows: torch.Tensor) -> Bytes:
    """The bytes of a tensor [n, ...] as it is, uint8 [n, bytes per row]."""
    rows = rows.detach().cpu().contiguous()
    n = rows.shape[0]
    width = rows[0].numel() * rows.element_size() if n else 0
    if width == 0:
        return np.zeros((n, 0), np.uint8)
    return rows.view(torch.uint8).numpy().reshape(n, width).copy()


def stored_bytes(rows: torch.Tensor, dtype: torch.dtype, scale: float = 1.0) -> Bytes:
    """`rows / scale` [n, ...] rounded to nearest even as `dtype`, uint8 [n, bytes per row]; fp8 saturates.

    Rows that have `dtype` already are stored as they are: who made them has scaled them. `scale` is a power of two,
    so that dividing by it rounds nowhere, in whatever type it is done.
    """
    if rows.dtype == dtype:
        return raw_bytes(rows)
    n = rows.shape[0]
    exact = rows.detach().cpu().double().numpy().reshape(n, -1) / scale
    if dtype in FP8:
        return encode_saturating(exact, dtype)
    if dtype == torch.float32:
        converted: npt.NDArray[np.generic] = exact.astype(np.float32)
    elif dtype == torch.float16:
        with np.errstate(over="ignore"):  # too large is infinite, as it should be
            converted = exact.astype(np.float16)
    elif dtype == torch.bfloat16:
        converted = _bfloat16_bits(exact.astype(np.float32))
    else:
        raise KeyError(dtype)
    return converted.view(np.uint8).reshape(n, -1)


def _bfloat16_bits(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    # bfloat16 is the upper half of float32: add half of the last kept bit, and one more where that makes it even.
    bits = values.view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return rounded.astype(np.uint16)
