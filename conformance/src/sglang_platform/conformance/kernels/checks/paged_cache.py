"""A random paged KV cache with all that tends to go wrong.

Pages of a request lie anywhere, in any order; the last slot of the cache is in use; slots that nobody owns, and the
rest of every last page, hold NaN or huge values; table entries beyond a length name slots that do not exist. Rows of
the cache, of the queries and of the output have strides of their own.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import torch

__all__ = ["PagedCache", "random_cache", "strided"]


@dataclass
class PagedCache:
    """k [S, Hk, D], v [S, Hk, Dv], table int32 [rows, C], rows int64 [B], lengths: tokens per request.

    `slots[b]`: request b's slots, in order of position."""

    k: torch.Tensor
    v: torch.Tensor
    table: torch.Tensor
    rows: torch.Tensor
    lengths: list[int]
    slots: list[torch.Tensor]

    def keys(self, request: int) -> torch.Tensor:
        """[n, Hk, D] in float64."""
        return _double(self.k, self.slots[request])

    def values(self, request: int) -> torch.Tensor:
        """[n, Hk, Dv] in float64."""
        return _double(self.v, self.slots[request])


def _double(cache: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    return cache.cpu()[slots].double()


def strided(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device, pad: int) -> torch.Tensor:
    """An empty tensor whose rows and last dimension are followed by `pad` elements that belong to nobody."""
    room = torch.empty((*shape[:-1], shape[-1] + pad), dtype=dtype, device=device)
    return room[..., : shape[-1]]


def random_cache(
    rng: random.Random,
    device: torch.device,
    lengths: list[int],
    *,
    heads: int,
    dim: int,
    value_dim: int,
    page: int,
    dtype: torch.dtype,
    latent: bool = False,
    spread: float = 1.0,
    pad: int = 0,
) -> PagedCache:
    """`latent`: the values are the first columns of the keys, in the same memory (absorbed MLA)."""
    generator = torch.Generator().manual_seed(rng.getrandbits(31))
    pages = [-(-n // page) for n in lengths]
    # One page is reserved for padding, at least one belongs to nobody, and the last one is in use.
    count = 2 + sum(pages) + rng.randrange(3)
    free = list(range(1, count - 1))
    rng.shuffle(free)
    free = [*free, count - 1]
    rows = rng.sample(range(1, len(lengths) + 4), len(lengths))
    width = max([*lengths, 1]) + rng.randrange(4)
    table = torch.full((len(lengths) + 4, width), 1 << 30, dtype=torch.int32)
    slots = []
    for row, n, mine in zip(rows, lengths, pages, strict=True):
        own = torch.tensor([free.pop() for _ in range(mine)], dtype=torch.int64)
        position = torch.arange(n)
        at = own[position // page] * page + position % page if n else position
        table[row, :n] = at.int()
        slots.append(at)
    size = count * page
    used = torch.cat([*slots, torch.zeros(0, dtype=torch.int64)]).long()

    def filled(columns: int) -> torch.Tensor:
        content = torch.randn((size, heads, columns), generator=generator) * spread
        stored = content.to(dtype)
        poison = torch.full((size, heads, columns), float("nan"))
        # Every other slot: NaN hides in a comparison, the largest value in a product with zero. Slot 0, where masked
        # lanes point, is the first.
        poison[1::2] = torch.finfo(dtype).max
        unused = torch.ones(size, dtype=torch.bool)
        unused[used] = False
        bytes_view = (
            torch.uint8 if dtype.itemsize == 1 else torch.int16 if dtype.itemsize == 2 else torch.int32
        )
        both = torch.where(unused[:, None, None], poison.to(dtype).view(bytes_view), stored.view(bytes_view))
        cache = strided((size, heads, columns), bytes_view, device, pad)
        cache.copy_(both)
        return cache.view(dtype)

    k = filled(dim)
    v = k[..., :value_dim] if latent else filled(value_dim)
    return PagedCache(k, v, table.to(device), torch.tensor(rows, device=device), lengths, slots)
