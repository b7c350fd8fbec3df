"""Rows of a paged cache as the attention kernels read them: floats as they are, 8-bit floats as codes."""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl

from sglang_platform.rocm.kernels.fp8 import FP8_FORMATS, converts_fp8
from sglang_platform.rocm.kernels.fp8_values import from_fp8_codes

__all__ = ["RocmStoredKV", "load_rows", "stored_kv"]


@triton.jit
def load_rows(ptr, offsets, mask, FORMAT: tl.constexpr, IN_HARDWARE: tl.constexpr, DTYPE: tl.constexpr):
    """Elements at `offsets` as DTYPE, zero where not `mask`. `FORMAT`: the 8-bit format of bytes, "" for floats."""
    stored = tl.load(ptr + offsets, mask=mask, other=0)
    if FORMAT == "":
        values = stored.to(DTYPE)
    else:
        values = from_fp8_codes(stored, FORMAT, IN_HARDWARE, DTYPE)
    return values


class RocmStoredKV(NamedTuple):
    """Caches as a kernel reads them: fp8 as bytes with the format's name, anything else as it is with ""."""

    k: torch.Tensor
    v: torch.Tensor
    name: str
    in_hardware: bool


def stored_kv(k: torch.Tensor, v: torch.Tensor, packed: torch.dtype | None = None) -> RocmStoredKV:
    """Raises ValueError where the last dimension is not contiguous or keys and values differ in dtype."""
    if k.dtype != v.dtype or k.stride(-1) != 1 or v.stride(-1) != 1:
        raise ValueError(
            f"keys {k.dtype} with strides {k.stride()} and values {v.dtype} with strides {v.stride()}: "
            "both need one dtype and a contiguous last dimension"
        )
    dtype = packed or k.dtype
    if dtype not in FP8_FORMATS:
        return RocmStoredKV(k, v, "", False)
    name = FP8_FORMATS[dtype]
    return RocmStoredKV(k.view(torch.uint8), v.view(torch.uint8), name, converts_fp8(k.device, name))
