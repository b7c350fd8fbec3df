"""Integers of a few bits, several to a word of 32: the layouts in which quantised checkpoints keep them."""

from __future__ import annotations

import torch

__all__ = ["AWQ_ORDER", "unpack"]

AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)
"""AWQ's order of the eight 4-bit values of a word: value i of the row is in bits 4 * AWQ_ORDER[i]."""


def unpack(
    packed: torch.Tensor, bits: int, *, dim: int, order: tuple[int, ...] | None = None
) -> torch.Tensor:
    """The unsigned values of `packed` (int32), as int32; dimension `dim` (0 or 1 of two) grows by 32 / bits.

    The first value of a word is in its lowest bits, unless `order` says in which place each is.
    """
    places = torch.tensor(order or range(32 // bits), dtype=torch.int32, device=packed.device) * bits
    values = (packed.unsqueeze(-1) >> places) & (2**bits - 1)
    if dim == 0:
        values = values.transpose(1, 2)
    return values.flatten(dim, dim + 1)
