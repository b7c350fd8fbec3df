"""What the attention kernels share: reading rows of keys and values, and what the wrappers work out about them."""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl

from sglang_platform.rocm.kernels.fp8 import FP8_FORMATS
from sglang_platform.rocm.kernels.fp8_values import from_fp8_codes
from sglang_platform.core.portable.triton.launch import converts_fp8

__all__ = ["StoredKV", "head_parts", "load_rows", "one_element", "shares_values", "stored_kv"]


@triton.jit
def load_rows(ptr, offsets, mask, FORMAT: tl.constexpr, IN_HARDWARE: tl.constexpr, DTYPE: tl.constexpr):
    """Elements at `offsets` as DTYPE, zero where not `mask`. `FORMAT`: the 8-bit format of bytes, "" for floats."""
    stored = tl.load(ptr + offsets, mask=mask, other=0)
    if FORMAT == "":
        values = stored.to(DTYPE)
    else:
        values = from_fp8_codes(stored, FORMAT, IN_HARDWARE, DTYPE)
    return values


class StoredKV(NamedTuple):
    """Caches as a kernel reads them: fp8 as bytes with the format's name, anything else as it is with ""."""

    k: torch.Tensor
    v: torch.Tensor
    name: str
    in_hardware: bool


def stored_kv(k: torch.Tensor, v: torch.Tensor, packed: torch.dtype | None = None) -> StoredKV:
    """Raises ValueError where the last dimension is not contiguous or keys and values differ in dtype."""
    if k.dtype != v.dtype or k.stride(-1) != 1 or v.stride(-1) != 1:
        raise ValueError(
            f"keys {k.dtype} with strides {k.stride()} and values {v.dtype} with strides {v.stride()}: "
            "both need one dtype and a contiguous last dimension"
        )
    dtype = packed or k.dtype
    if dtype not in FP8_FORMATS:
        return StoredKV(k, v, "", False)
    name = FP8_FORMATS[dtype]
    return StoredKV(k.view(torch.uint8), v.view(torch.uint8), name, converts_fp8(k.device, name))


def shares_values(k: torch.Tensor, v: torch.Tensor, values: int) -> bool:
    """Whether v is the first columns of k, as in absorbed MLA, and a power of two of them."""
    same = k.data_ptr() == v.data_ptr() and k.stride(0) == v.stride(0) and k.shape[1] == 1 == v.shape[1]
    return same and k.shape[-1] > values and values & (values - 1) == 0


def head_parts(dim: int, main: int | None = None) -> tuple[int, int]:
    """A head of `dim` columns as a main part and the rest, padded to a power of two (0: none), at least 16 each.

    `main` fixes the first; otherwise it is the largest power of two within `dim`.
    """
    if main is None:
        main = 1 << (dim.bit_length() - 1)
    if main < 16:
        raise ValueError(f"a head of {dim} columns: at least 16 are needed")
    rest = dim - main
    return main, 0 if rest == 0 else max(16, 1 << (rest - 1).bit_length())


_ones: dict[torch.device, torch.Tensor] = {}


def one_element(
    like: torch.Tensor, k_scale: torch.Tensor | None, v_scale: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Both scales as tensors; 1 where only the other is given."""
    if k_scale is None and v_scale is None:
        return like, like
    if like.device not in _ones:
        _ones[like.device] = torch.ones(1, dtype=torch.float32, device=like.device)
    one = _ones[like.device]
    return (one if k_scale is None else k_scale), (one if v_scale is None else v_scale)
