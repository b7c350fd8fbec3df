"""`store_index_keys(keys, scales, out, loc, *, page_size)`: keys and scales in their pages, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from sglang_platform.conformance.kernels.case import Case, ComparedOutput, bit_equal
from sglang_platform.conformance.kernels.checks.random_rows import BATCHES, generators, slots

__all__ = ["cases"]


def cases(entry: Callable[..., Any], device: torch.device, seed: int) -> Iterator[Case]:
    for number, random in generators(32, seed):
        n = BATCHES[number % len(BATCHES)]
        page_size = (64, 16, 1, 4)[number // 2 % 4]
        head_dim = (128, 256)[number % 2]
        apart = number % 3 == 0

        def run(
            random: torch.Generator = random, n: int = n, page_size: int = page_size, head_dim: int = head_dim,
            apart: bool = apart,
        ) -> list[ComparedOutput]:  # fmt: skip
            return _run(entry, device, random, n, page_size, head_dim, apart)

        yield Case(
            f"{number}: {n} keys of {head_dim}, pages of {page_size}{', rows apart' if apart else ''}", run
        )


def _run(
    entry: Callable[..., Any], device: torch.device, random: torch.Generator, n: int, page_size: int, head_dim: int,
    apart: bool,
) -> list[ComparedOutput]:  # fmt: skip
    blocks = head_dim // 128
    pages = -(-(n + 3) // page_size)
    keys = torch.randint(0, 256, (n, head_dim * 2), generator=random, dtype=torch.uint8).to(device)
    keys = keys[:, :head_dim] if apart else keys[:, :head_dim].contiguous()
    scales = torch.randn((n, blocks), generator=random).to(device)
    out = torch.full((pages, page_size * (head_dim + 4 * blocks)), 0x7F, dtype=torch.uint8, device=device)
    loc = slots(random, n, pages * page_size, (torch.int64, torch.int32)[n % 2], device)
    expected = out.cpu().clone()
    for token, slot in enumerate(loc.cpu().tolist()):
        page, within = divmod(slot, page_size)
        expected[page, within * head_dim : (within + 1) * head_dim] = keys[token].cpu()
        start = page_size * head_dim + within * 4 * blocks
        expected[page, start : start + 4 * blocks] = scales[token].cpu().view(torch.uint8)
    entry(
        keys.view(torch.float8_e4m3fn), scales[:, 0] if blocks == 1 else scales, out, loc, page_size=page_size
    )
    return [bit_equal("the buffer", out, expected)]
