"""MXFP4 of the OCP Microscaling Formats specification, version 1.0: 4-bit numbers in blocks with a shared scale.

A block is 32 numbers of a row. Its scale is a power of two, kept in 8 bits (E8M0: the exponent plus 127), such that the
block's largest number has the largest exponent of the elements. An element (E2M1) is a sign and one of 0, 0.5, 1, 1.5,
2, 3, 4, 6; numbers are rounded to the nearest, ties to the even code, and beyond 6 to 6.

The error: with M the largest magnitude of a block, M / scale lies in [4, 8). A number of up to 6 scales is off by at
most half the gap around it, so by at most 1 scale, which is at most M / 4; one above is stored as 6 scales and off by
less than 2, which is less than M / 4 as well. Hence |stored - w| <= M / 4 for every number of a block, as long as its
scale is not below what 8 bits hold (M >= 2 ** -125). M near 8 scales comes as close to that as one likes.
"""

from __future__ import annotations

import torch

__all__ = ["BLOCK", "dequantise", "quantise"]

BLOCK = 32
_LARGEST_EXPONENT = 2  # of an element: 4 = 2 ** 2
_BIAS = 127
_MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def quantise(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """`weight` [..., K], K a multiple of 32 -> codes uint8 [..., K / 2] and scales uint8 [..., K / 32].

    Two codes share a byte, the first in its low half. Raises ValueError for another K and for infinities and NaN,
    which elements do not have.
    """
    *rows, length = weight.shape
    if length % BLOCK:
        raise ValueError(f"rows of {length} numbers do not divide into blocks of {BLOCK}")
    blocks = weight.detach().float().reshape(*rows, length // BLOCK, BLOCK)
    if not bool(torch.isfinite(blocks).all()):
        raise ValueError("MXFP4 has no infinities and no NaN, and the weight has some")
    # frexp answers a mantissa in [0.5, 1): its exponent is one above that of the leading bit.
    exponent = torch.frexp(blocks.abs().amax(dim=-1))[1].int() - 1 - _LARGEST_EXPONENT
    exponent = exponent.clamp(-_BIAS, _BIAS)
    codes = _codes(torch.ldexp(blocks, -exponent[..., None])).reshape(*rows, length // 2, 2)
    return codes[..., 0] | codes[..., 1] << 4, (exponent + _BIAS).to(torch.uint8)


def dequantise(codes: torch.Tensor, scales: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """What `quantise` stored, [..., K] of `dtype`: exact in float32 and bfloat16."""
    both = torch.stack((codes & 15, codes >> 4), dim=-1).flatten(-2).long()
    values = torch.tensor((*_MAGNITUDES, *(-one for one in _MAGNITUDES)), device=codes.device)[both]
    blocks = values.unflatten(-1, (-1, BLOCK))
    return torch.ldexp(blocks, scales[..., None].int() - _BIAS).flatten(-2).to(dtype)


def _codes(scaled: torch.Tensor) -> torch.Tensor:
    """Numbers in units of their block's scale -> codes 0 to 15."""
    size = scaled.abs()
    gap = torch.where(size < 2, 0.5, torch.where(size < 4, 1.0, 2.0))
    # torch rounds halves to even, and within each range even multiples of the gap are the even codes.
    rounded = (torch.round(size / gap) * gap).clamp(max=_MAGNITUDES[-1])
    code = torch.searchsorted(torch.tensor(_MAGNITUDES, device=scaled.device), rounded.contiguous())
    return (code + 8 * (scaled < 0)).to(torch.uint8)
