"""Random rows with every kind of value and stride, for the checks of kernels that store or copy."""

from __future__ import annotations

from collections.abc import Iterator

import torch

__all__ = ["BATCHES", "LAYOUTS", "SPECIAL", "poisoned", "rows", "slots"]

BATCHES = (0, 1, 2, 3, 7, 16, 17, 33)
LAYOUTS = ("contiguous", "part of wider rows", "heads apart", "transposed")
SPECIAL = (0.0, -0.0, 1e-38, -1e-3, 448.0, 464.0, 500.0, -1e9, float("inf"), -float("inf"), 2.0**-9, 2.0**-10)


def rows(
    random: torch.Generator,
    n: int,
    heads: int,
    width: int,
    dtype: torch.dtype,
    layout: str,
    device: torch.device,
) -> torch.Tensor:
    """[n, heads, width] of `dtype` with a spread of magnitudes and some extreme values, laid out as `layout` says."""
    size = (n, heads, width)
    values = torch.randn(size, generator=random) * 10 ** torch.randint(-4, 4, size, generator=random).float()
    flat = values.view(-1)
    if flat.numel():
        at = torch.randint(0, flat.numel(), (min(len(SPECIAL), flat.numel()),), generator=random)
        flat[at] = torch.tensor(SPECIAL[: len(at)])
    values = values.to(dtype).to(device)
    if layout == "part of wider rows":  # a part of a fused projection's output
        wide = torch.zeros((n, 3 * heads, width), dtype=dtype, device=device)
        wide[:, heads : 2 * heads] = values
        return wide[:, heads : 2 * heads]
    if layout == "heads apart":
        apart = torch.zeros((n, heads, width + 8), dtype=dtype, device=device)
        apart[..., :width] = values
        return apart[..., :width]
    if layout == "transposed":
        return values.transpose(1, 2).contiguous().transpose(1, 2)
    return values


def slots(
    random: torch.Generator, n: int, capacity: int, dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """`n` different slots of `capacity`, the last one among them, in any order."""
    chosen = torch.randperm(capacity - 1, generator=random)[: max(n - 1, 0)]
    chosen = torch.cat((chosen, torch.tensor([capacity - 1])))[:n] if n else chosen[:0]
    return chosen[torch.randperm(n, generator=random)].to(dtype).to(device)


def poisoned(*shape: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Memory that holds NaN (fp8 as uint8: 0x7F), which nothing may read and a store must leave where it does not
    write."""
    if dtype == torch.uint8:
        return torch.full(shape, 0x7F, dtype=dtype, device=device)
    return torch.full(shape, float("nan"), dtype=dtype, device=device)


def generators(count: int, seed: int) -> Iterator[tuple[int, torch.Generator]]:
    """`count` numbered generators, each seeded by its number and `seed` alone."""
    for number in range(count):
        yield number, torch.Generator().manual_seed(seed * 1_000_003 + number)
