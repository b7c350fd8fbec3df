"""Number formats that numpy does not have, by way of float32.

The interpreter keeps bfloat16 in uint16 and the 8-bit formats in uint8. Each of their values is a float32, so
`decode` is exact; `encode` rounds to nearest, ties to even, as torch does. Beyond the largest finite value of an 8-bit
format torch answers NaN (e4m3) or infinity (e5m2) where some hardware saturates, so a kernel that relies on either is
not portable: it must clamp, and one that does not is noticed here.
"""

from __future__ import annotations

import numpy as np
import torch
import triton.language as tl

__all__ = ["decode", "encode", "is_emulated"]

_FORMATS: dict[str, torch.dtype] = {
    "bf16": torch.bfloat16,
    "fp8e4nv": torch.float8_e4m3fn,
    "fp8e4b8": torch.float8_e4m3fnuz,
    "fp8e5": torch.float8_e5m2,
    "fp8e5b16": torch.float8_e5m2fnuz,
}


def is_emulated(dtype: tl.dtype) -> bool:
    """Whether the interpreter keeps values of this type as bits."""
    scalar = dtype.scalar
    return scalar == tl.bfloat16 or (scalar.is_floating() and scalar.primitive_bitwidth == 8)


def decode(bits: np.ndarray, dtype: tl.dtype) -> np.ndarray:
    """The values of `bits` as float32, exactly; other types are returned as they are."""
    if not is_emulated(dtype):
        return bits
    if dtype.scalar == tl.bfloat16:
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    stored = torch.from_numpy(np.array(bits, dtype=np.uint8, order="C"))
    return stored.view(_format(dtype)).float().numpy()


def encode(values: np.ndarray, dtype: tl.dtype) -> np.ndarray:
    """`values` rounded once to `dtype`, as the bits the interpreter keeps."""
    # One rounding: float64 and integers would be rounded twice through float32, so torch converts them itself.
    source = torch.from_numpy(np.array(values, order="C"))
    bits = torch.uint16 if dtype.scalar == tl.bfloat16 else torch.uint8
    return source.to(_format(dtype)).view(bits).numpy()


def _format(dtype: tl.dtype) -> torch.dtype:
    name = dtype.scalar.name
    if name not in _FORMATS:
        raise NotImplementedError(f"the interpreter has no correct arithmetic for {name}")
    return _FORMATS[name]
