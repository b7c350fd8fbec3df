"""`fused_add_rms_norm(x, residual, weight, eps)` in place, within the bounds of `oracles.ops.fused_add_rms_norm`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from sglang_platform.conformance.kernels.case import Case, ComparedOutput, compare
from sglang_platform.conformance.kernels.checks.random_rows import BATCHES, generators
from sglang_platform.conformance.kernels.checks.rms_norm import DTYPES, WIDTHS, activations
from sglang_platform.conformance.oracles import ops

__all__ = ["cases"]


def cases(entry: Callable[..., Any], device: torch.device, seed: int) -> Iterator[Case]:
    for number, random in generators(36, seed):
        n, width = BATCHES[number % len(BATCHES)], WIDTHS[number % len(WIDTHS)]
        dtype, apart = DTYPES[number % 3], number % 4 == 1

        def run(
            random: torch.Generator = random, n: int = n, width: int = width, dtype: torch.dtype = dtype,
            apart: bool = apart,
        ) -> list[ComparedOutput]:  # fmt: skip
            x = activations(random, n, width, dtype, device, apart)
            residual = activations(random, n, width, dtype, device)
            weight = (torch.randn(width, generator=random) + 1).to(dtype).to(device)
            normalised, total = ops.fused_add_rms_norm(x.cpu(), residual.cpu(), weight.cpu(), 1e-5)
            entry(x, residual, weight, 1e-5)
            return [
                compare("the normalised sum", x, normalised.value, normalised.bound),
                compare("the residual", residual, total.value, total.bound),
            ]

        yield Case(f"{number}: {n} x {width}, {dtype}{', apart' if apart else ''}", run)
