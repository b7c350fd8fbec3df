"""The selection of sparse attention: `core.portable.triton.top_slots.top_slots`, or one of its signature.

Exact: the slots of the k largest logits by position, of equal ones the first; then -1.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import torch

from sglang_platform.conformance.kernels.case import Case, ComparedOutput, bit_equal

__all__ = ["cases"]


def cases(entry: Callable[..., Any], device: torch.device, seed: int) -> Iterator[Case]:
    """Rows shorter than k, of k, longer; many equal values at the threshold; both zeros, infinities, subnormals."""
    rng = random.Random(f"top {seed}")
    fixed = [([], 8), ([0, 1], 8), ([8, 9, 7], 8), ([300, 2], 64), ([513], 512), ([256, 257], 16), ([700], 1)]
    for number in range(34):
        lengths, topk = (
            fixed[number]
            if number < len(fixed)
            else (
                [rng.choice((1, rng.randint(1, 600))) for _ in range(rng.randint(1, 3))],
                rng.choice((1, 16, 33, 256)),
            )
        )
        kind = rng.choice(("normal", "few values", "close", "wide", "special"))

        def run(
            a: tuple[Any, ...] = (lengths, topk, kind), tag: str = f"{seed} {number}"
        ) -> list[ComparedOutput]:
            return _run(entry, device, tag, *a)

        yield Case(f"n={lengths} k={topk} {kind}", run)


def _run(
    entry: Callable[..., Any], device: torch.device, tag: str, lengths: list[int], topk: int, kind: str
) -> list[ComparedOutput]:
    rng = random.Random(tag)
    generator = torch.Generator().manual_seed(rng.getrandbits(31))
    tokens, width = len(lengths), max([*lengths, 1]) + rng.randrange(5)
    x = torch.randn((tokens, width), generator=generator)
    if kind == "few values":
        x = (x * 2).round()
    elif kind == "close":
        # Only the last bits differ.
        x = 1.0 + torch.randint(0, 200, x.shape, generator=generator) * 2.0**-23
    elif kind == "wide":
        x = x * torch.exp2(torch.randint(-126, 126, x.shape, generator=generator).float())
    elif kind == "special":
        values = torch.tensor([0.0, -0.0, float("inf"), float("-inf"), 1e-45, -1e-45, 1.0, 1.0 + 2**-23])
        x = values[torch.randint(0, len(values), x.shape, generator=generator)]
    for t, n in enumerate(lengths):
        x[t, n:] = float("nan")
    table = torch.randperm((tokens + 2) * width, generator=generator).int().view(tokens + 2, width)
    rows = rng.sample(range(tokens + 2), tokens)
    expected = torch.full((tokens, topk), -1, dtype=torch.int32)
    for t, n in enumerate(lengths):
        best = sorted(sorted(range(n), key=lambda i, t=t: (-x[t, i].item(), i))[:topk])  # type: ignore[misc]
        expected[t, : len(best)] = table[rows[t]][torch.tensor(best, dtype=torch.long)]
    got = entry(
        x.to(device),
        table.to(device),
        torch.tensor(rows, device=device),
        torch.tensor(lengths, device=device),
        topk=topk,
    )
    return [bit_equal("slots", got, expected)]
