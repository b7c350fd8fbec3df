"""`decode_slots(seq_lens, last_loc, free_pages, out, *, page_size)` against a loop over requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from sglang_platform.conformance.kernels.case import Case, ComparedOutput, bit_equal
from sglang_platform.conformance.kernels.checks.random_rows import generators

__all__ = ["cases"]


def cases(entry: Callable[..., Any], device: torch.device, seed: int) -> Iterator[Case]:
    for number, random in generators(36, seed):
        batch = (0, 1, 2, 7, 64, 65, 1500)[number % 7]
        page_size = (1, 4, 16, 64)[number % 4]
        kind = ("any", "every request a new page", "no new page")[number % 3]

        def run(
            random: torch.Generator = random, batch: int = batch, page_size: int = page_size, kind: str = kind
        ) -> list[ComparedOutput]:
            return _run(entry, device, random, batch, page_size, kind)

        yield Case(f"{number}: {batch} requests, pages of {page_size}, {kind}", run)


def _run(
    entry: Callable[..., Any],
    device: torch.device,
    random: torch.Generator,
    batch: int,
    page_size: int,
    kind: str,
) -> list[ComparedOutput]:
    seq = torch.randint(1, 400, (batch,), generator=random)
    if kind == "every request a new page":
        seq = seq * page_size + 1
    elif kind == "no new page" and page_size > 1:
        seq = seq * page_size + 2
    last = torch.randint(1, 900, (batch,), generator=random) * page_size + (seq - 2) % page_size
    pages = torch.randperm(2000, generator=random) + 1000
    expected, taken = [], 0
    for s, loc in zip(seq.tolist(), last.tolist(), strict=True):
        if (s - 1) % page_size == 0:
            expected.append(int(pages[taken]) * page_size)
            taken += 1
        else:
            expected.append(loc + 1)
    out = torch.full((batch,), -7, dtype=torch.int64, device=device)
    dtype = (torch.int64, torch.int32)[batch % 2]
    entry(
        seq.to(dtype).to(device),
        last.to(dtype).to(device),
        pages[:taken].to(device),
        out,
        page_size=page_size,
    )
    return [bit_equal("the slots", out, torch.tensor(expected, dtype=torch.int64))]
