"""The packed fp8 row of sparse MLA: values, scales and the rotated part side by side, in bytes.

::

    | latent, fp8, rank bytes | one float32 scale per 128 of them | rotated part, bfloat16 |

For rank 512 and 64 rotated values: 512 + 16 + 128 = 656 bytes. Within a tile of 128 values, value = fp8 *
scale, with scale = max |value| / largest fp8. Source: DeepSeek's FlashMLA fp8 KV cache; the layout is the one
SGLang 0.5.23 stores.
"""

from __future__ import annotations

import torch

from sglang_platform.core.memory.rows import cast_rows

__all__ = ["TILE", "pack", "packed_row_bytes", "unpack"]

TILE = 128
_SCALE, _SCALE_BYTES = torch.float32, 4
_ROPE, _ROPE_BYTES = torch.bfloat16, 2


def packed_row_bytes(rank: int, rope_dim: int) -> int:
    """Bytes of a row; `rank` is a multiple of 128."""
    return rank + rank // TILE * _SCALE_BYTES + rope_dim * _ROPE_BYTES


def pack(nope: torch.Tensor, rope: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Latent [n, 1, rank] and rotated part [n, 1, r] as bytes: uint8 [n, 1, rank + rank / 32] and [n, 1, 2
    r]."""
    n, _, rank = nope.shape
    tiles = nope.float().reshape(n, rank // TILE, TILE)
    scales = tiles.abs().amax(dim=-1, keepdim=True) / torch.finfo(dtype).max
    # The scale of a tile of zeros is 0; use 1, since the values are divided by it.
    scales = torch.where(scales == 0, torch.ones_like(scales), scales)
    values = cast_rows(tiles, dtype, scales).reshape(n, rank).view(torch.uint8)
    packed = torch.cat((values, scales.reshape(n, rank // TILE).view(torch.uint8)), dim=-1)
    rope_bytes = rope.to(_ROPE).contiguous().view(torch.uint8) if rope.numel() else rope.to(torch.uint8)
    return packed.unsqueeze(1), rope_bytes


def unpack(rows: torch.Tensor, rank: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Packed rows, uint8 [n, 1, bytes], as float32 [n, 1, rank] and [n, 1, r]."""
    n = rows.shape[0]
    scale_bytes = rank // TILE * _SCALE_BYTES
    values, scales, rope = rows.split((rank, scale_bytes, rows.shape[-1] - rank - scale_bytes), dim=-1)
    tiles = values.contiguous().view(dtype).float().reshape(n, rank // TILE, TILE)
    nope = tiles * scales.contiguous().view(_SCALE).reshape(n, rank // TILE, 1)
    return nope.reshape(n, 1, rank), rope.contiguous().view(_ROPE).float()
