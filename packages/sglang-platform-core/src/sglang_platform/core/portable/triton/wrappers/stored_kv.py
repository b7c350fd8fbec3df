"""A paged cache as the attention kernels take it."""

from __future__ import annotations

from typing import NamedTuple

import torch

from sglang_platform.core.portable.triton.wrappers.hardware import Hardware

__all__ = ["StoredKV", "stored_kv"]


class StoredKV(NamedTuple):
    """8-bit floats as bytes with the format's name, anything else as it is with ""."""

    k: torch.Tensor
    v: torch.Tensor
    name: str
    in_hardware: bool


def stored_kv(
    hardware: Hardware, k: torch.Tensor, v: torch.Tensor, packed: torch.dtype | None = None
) -> StoredKV:
    """The cache in the form that the kernels take. packed: the 8-bit dtype inside packed rows.

    Raises ValueError where the last dimension is not contiguous, keys and values differ in dtype, or the kernels do not
    know it.
    """
    if k.dtype != v.dtype or k.stride(-1) != 1 or v.stride(-1) != 1:
        raise ValueError(
            f"keys {k.dtype} with strides {k.stride()} and values {v.dtype} with strides {v.stride()}: "
            "both need one dtype and a contiguous last dimension"
        )
    name, in_hardware = hardware.fp8(packed or k.dtype, k.device)
    if not name:
        if k.dtype.itemsize == 1:
            raise ValueError(f"a cache of {k.dtype} holds no floats that these kernels could read")
        return StoredKV(k, v, "", False)
    return StoredKV(k.view(torch.uint8), v.view(torch.uint8), name, in_hardware)
