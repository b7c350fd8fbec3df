"""`move_rows(buffers, tgt_loc, src_loc)`: as if all rows were read before one is written; every other byte stays."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from sglang_platform.conformance.kernels.case import Case, ComparedOutput, bit_equal
from sglang_platform.conformance.kernels.checks.random_rows import generators
from sglang_platform.conformance.kernels.interpreter.arena import reachable
from sglang_platform.core.portable.triton.buffer_table import Rows

__all__ = ["cases"]

_COUNTS = (1, 2, 3, 8, 15, 33)
_OVERLAPS = ("apart", "a cycle", "shifted by one", "in place")


def cases(entry: Callable[..., Any], device: torch.device, seed: int) -> Iterator[Case]:
    for number, random in generators(32, seed):
        n, overlap, paged = (
            _COUNTS[number % len(_COUNTS)],
            _OVERLAPS[number % len(_OVERLAPS)],
            number % 3 == 2,
        )

        def run(
            random: torch.Generator = random, n: int = n, overlap: str = overlap, paged: bool = paged
        ) -> list[ComparedOutput]:
            return _run(entry, device, random, n, overlap, paged)

        yield Case(f"{number}: {n} rows, {overlap}, {'pages of two parts' if paged else 'rows'}", run)


def _run(
    entry: Callable[..., Any],
    device: torch.device,
    random: torch.Generator,
    n: int,
    overlap: str,
    paged: bool,
) -> list[ComparedOutput]:
    per_page = 4
    capacity = -(-(2 * n + 3) // per_page) * per_page
    source, target = _places(random, n, capacity, overlap)
    if paged:
        pages = torch.randint(
            0, 256, (capacity // per_page, per_page * 20), generator=random, dtype=torch.uint8
        )
        whole = [pages.to(device)]
        keys = whole[0][:, : per_page * 16].view(-1, per_page, 16)
        scales = whole[0][:, per_page * 16 :].view(-1, per_page, 4)
        launches = [[Rows(keys, per_page)], [Rows(scales, per_page)]]
    else:
        widths = ((2, 8), (3, 6), (1, 40), (2, 5))[: 1 + n % 4]
        dtypes = (torch.float32, torch.float16, torch.uint8, torch.bfloat16)
        whole = [
            torch.randint(0, 256, (capacity, *width, dtype.itemsize), generator=random, dtype=torch.uint8)
            .view(dtype)
            .squeeze(-1)
            .to(device)
            for width, dtype in zip(widths, dtypes, strict=False)
        ]
        keys = scales = whole[0]
        launches = [[Rows(buffer) for buffer in whole]]
    expected = [buffer.view(torch.uint8).cpu().clone() for buffer in whole]
    if paged:
        part = expected[0].view(-1, per_page * 20)
        for start, width in ((0, 16), (per_page * 16, 4)):
            view = part[:, start : start + per_page * width].view(-1, per_page, width)
            view[target // per_page, target % per_page] = view[source // per_page, source % per_page].clone()
    else:
        for buffer in expected:
            buffer[target] = buffer[source].clone()
    with _reached(whole, device):
        for buffers in launches:
            entry(buffers, target.to(device), source.to(device))
    return [
        bit_equal(f"buffer {i}", got.view(torch.uint8), want)
        for i, (got, want) in enumerate(zip(whole, expected, strict=True))
    ]


def _places(
    random: torch.Generator, n: int, capacity: int, overlap: str
) -> tuple[torch.Tensor, torch.Tensor]:
    chosen = torch.randperm(capacity, generator=random)
    source = chosen[:n]
    if overlap == "a cycle":
        return source, source.roll(1)
    if overlap == "shifted by one":  # what closing one gap does: every row but the first is read and written
        return torch.arange(1, n + 1), torch.arange(n)
    if overlap == "in place":
        return source, source.clone()
    return source, chosen[n : 2 * n]


def _reached(buffers: list[torch.Tensor], device: torch.device) -> Any:
    if device.type != "cpu":
        return contextlib.nullcontext()
    return reachable(*buffers)
