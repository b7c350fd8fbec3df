"""The tokens of several requests laid out in chunks of one size, for recurrences that are computed chunk by chunk."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch

__all__ = ["TokenChunks", "token_chunks"]


class TokenChunks(NamedTuple):
    places: torch.Tensor
    """int64 [T']: where each token that belongs to a request lies among the M * size places."""

    tokens: torch.Tensor
    """int64 [T']: those tokens."""

    of_requests: list[range]
    """The chunks of each request."""

    total: int
    size: int

    def spread(self, x: torch.Tensor) -> torch.Tensor:
        """`x` [T, heads, ...] as [M, heads, size, ...], zero where there is no token."""
        laid = x.new_zeros((self.total * self.size, *x.shape[1:]))
        laid[self.places] = x[self.tokens]
        return laid.reshape(self.total, self.size, *x.shape[1:]).transpose(1, 2)

    def gather(self, y: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        """`y` [M, heads, size, ...] as [T, heads, ...] of the type of `like` [T, ...], zero for tokens of no
        request."""
        flat = y.transpose(1, 2).reshape(self.total * self.size, y.shape[1], *y.shape[3:])
        out = torch.zeros(like.shape[0], *flat.shape[1:], dtype=like.dtype, device=like.device)
        out[self.tokens] = flat[self.places].to(like.dtype)
        return out


def token_chunks(bounds: Sequence[int], size: int, device: torch.device) -> TokenChunks:
    """The layout for requests whose tokens are `bounds[r]` to `bounds[r + 1]`; each begins a chunk of its own."""
    places: list[int] = []
    tokens: list[int] = []
    of_requests: list[range] = []
    count = 0
    for begin, end in pairwise(bounds):
        chunks = -(-(end - begin) // size)
        tokens.extend(range(begin, end))
        places.extend(range(count * size, count * size + end - begin))
        of_requests.append(range(count, count + chunks))
        count += chunks
    return TokenChunks(
        torch.tensor(places, dtype=torch.int64, device=device),
        torch.tensor(tokens, dtype=torch.int64, device=device),
        of_requests,
        count,
        size,
    )
