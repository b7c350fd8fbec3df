"""`extend_slots(prefix_lens, seq_lens, last_loc, free_pages, out, *, page_size)` against a loop over tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from sglang_platform.conformance.kernels.case import Case, ComparedOutput, bit_equal
from sglang_platform.conformance.kernels.checks.random_rows import generators

__all__ = ["cases"]

_PAGES = (1, 4, 16, 64)


def cases(entry: Callable[..., Any], device: torch.device, seed: int) -> Iterator[Case]:
    for number, random in generators(36, seed):
        batch = (1, 2, 5, 17)[number % 4]
        page_size = _PAGES[number // 2 % 4]
        kind = ("any lengths", "page boundaries", "one token each", "nothing new")[number % 4]
        longest = (40, 200, 3000)[number // 12]

        def run(
            random: torch.Generator = random, batch: int = batch, page_size: int = page_size, kind: str = kind,
            longest: int = longest,
        ) -> list[ComparedOutput]:  # fmt: skip
            return _run(entry, device, random, batch, page_size, kind, longest)

        yield Case(f"{number}: {batch} requests of up to {longest} tokens, pages of {page_size}, {kind}", run)


def _run(
    entry: Callable[..., Any], device: torch.device, random: torch.Generator, batch: int, page_size: int, kind: str,
    longest: int,
) -> list[ComparedOutput]:  # fmt: skip
    def lengths(largest: int) -> torch.Tensor:
        drawn = torch.randint(0, largest, (batch,), generator=random)
        return drawn // page_size * page_size if kind == "page boundaries" else drawn

    prefix = lengths(longest)
    new = {"one token each": torch.ones(batch, dtype=torch.int64), "nothing new": prefix * 0}.get(
        kind, lengths(longest)
    )
    seq = prefix + new
    last = torch.where(
        prefix > 0,
        torch.randint(1, 50, (batch,), generator=random) * page_size + (prefix - 1) % page_size,
        -1,
    )
    pages = torch.randperm(5 * longest, generator=random) + 100
    expected, taken = [], 0
    for p, s, loc in zip(prefix.tolist(), seq.tolist(), last.tolist(), strict=True):
        slot = loc
        for position in range(p, s):
            if position % page_size == 0:
                slot = int(pages[taken]) * page_size
                taken += 1
            else:
                slot += 1
            expected.append(slot)
    out = torch.full((len(expected),), -7, dtype=torch.int64, device=device)
    dtype = (torch.int64, torch.int32)[batch % 2]
    arguments = (x.to(dtype).to(device) for x in (prefix, seq, last))
    entry(*arguments, pages[:taken].to(device), out, page_size=page_size)
    return [bit_equal("the slots", out, torch.tensor(expected, dtype=torch.int64))]
