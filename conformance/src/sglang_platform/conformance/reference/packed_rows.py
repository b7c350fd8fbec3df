"""Packed fp8 rows of sparse attention: the latent in tiles of 128, each with a scale of its own, and the rotated part
as it is.

A row is bytes: the tiles as fp8, one float32 scale for each, the rotated part as bfloat16 (DeepSeek's FlashMLA cache).
What a tile's byte stands for is that number times the tile's scale.
"""

from __future__ import annotations

import torch

__all__ = ["packed", "unpacked"]

TILE = 128


def packed(latent: torch.Tensor, rotated: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Latent [n, rank] and rotated part [n, r] as rows, uint8 [n, 1, width]."""
    n, rank = latent.shape
    tiles = latent.float().reshape(n, rank // TILE, TILE)
    largest = torch.finfo(dtype).max
    scales = tiles.abs().amax(dim=-1) / largest
    scales[scales == 0] = 1.0  # any will do for zeros
    bytes_of_tiles = (tiles / scales[..., None]).clamp(-largest, largest).to(dtype).view(torch.uint8)
    parts = [
        bytes_of_tiles.reshape(n, rank),
        scales.clone(memory_format=torch.contiguous_format).view(torch.uint8).reshape(n, 4 * (rank // TILE)),
        rotated.to(torch.bfloat16).contiguous().view(torch.uint8).reshape(n, 2 * rotated.shape[1]),
    ]
    return torch.cat(parts, dim=1)[:, None]


def unpacked(rows: torch.Tensor, rank: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows uint8 [n, 1, width] as float32 [n, 1, rank] and [n, 1, r]."""
    n, behind = len(rows), rank + 4 * (rank // TILE)
    tiles = rows[..., :rank].contiguous().view(dtype).float().reshape(n, rank // TILE, TILE)
    scales = rows[..., rank:behind].contiguous().view(torch.float32).reshape(n, rank // TILE, 1)
    rotated = rows[..., behind:].contiguous().view(torch.bfloat16).float()
    return (tiles * scales).reshape(n, 1, rank), rotated
