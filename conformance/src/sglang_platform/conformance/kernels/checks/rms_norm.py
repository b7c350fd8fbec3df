"""`rms_norm(x, weight, eps, *, round_first)` within the bound of `oracles.ops.rms_norm`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from sglang_platform.conformance.kernels.case import Case, ComparedOutput, compare
from sglang_platform.conformance.kernels.checks.random_rows import BATCHES, generators
from sglang_platform.conformance.oracles import ops

__all__ = ["DTYPES", "WIDTHS", "activations", "cases"]

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
WIDTHS = (128, 1, 7, 64, 96, 1024, 1536)


def activations(
    random: torch.Generator, n: int, width: int, dtype: torch.dtype, device: torch.device, apart: bool = False
) -> torch.Tensor:
    """[n, width] as hidden states are: around one, a few values a hundred times that, one row of zeros."""
    x = torch.randn((n, width * 2), generator=random)
    x[:, : max(width // 64, 1)] *= 100
    if n > 1:
        x[1] = 0
    x = x.to(dtype).to(device)
    return x[:, :width] if apart else x[:, :width].contiguous()


def cases(entry: Callable[..., Any], device: torch.device, seed: int) -> Iterator[Case]:
    for number, random in generators(36, seed):
        n, width = BATCHES[number % len(BATCHES)], WIDTHS[number % len(WIDTHS)]
        dtype, apart = DTYPES[number % 3], number % 4 == 1
        shape = "per head" if number % 5 == 2 else "rows"

        def run(
            random: torch.Generator = random, n: int = n, width: int = width, dtype: torch.dtype = dtype,
            apart: bool = apart, shape: str = shape, number: int = number,
        ) -> list[ComparedOutput]:  # fmt: skip
            x = activations(random, n * 4 if shape == "per head" else n, width, dtype, device, apart)
            x = x.unflatten(0, (n, 4)) if shape == "per head" else x
            weight = (torch.randn(width, generator=random) + 1).to(dtype).to(device)
            expected = ops.rms_norm(x.cpu(), weight.cpu(), 1e-6)
            got = entry(x, weight, 1e-6, round_first=number % 2 == 1)
            return [compare("the output", got, expected.value, expected.bound)]

        yield Case(f"{number}: {n} x {width}, {dtype}, {shape}{', apart' if apart else ''}", run)
