"""`silu_and_mul(x)` within the bound of `oracles.ops.silu_and_mul`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from sglang_platform.conformance.kernels.case import Case, ComparedOutput, compare
from sglang_platform.conformance.kernels.checks.random_rows import BATCHES, generators
from sglang_platform.conformance.kernels.checks.rms_norm import DTYPES, activations
from sglang_platform.conformance.oracles import ops

__all__ = ["cases"]

_WIDTHS = (64, 1, 7, 96, 1024, 2500)


def cases(entry: Callable[..., Any], device: torch.device, seed: int) -> Iterator[Case]:
    for number, random in generators(36, seed):
        n, width = BATCHES[number % len(BATCHES)], _WIDTHS[number % len(_WIDTHS)]
        dtype, apart = DTYPES[number % 3], number % 4 == 1

        def run(
            random: torch.Generator = random, n: int = n, width: int = width, dtype: torch.dtype = dtype,
            apart: bool = apart,
        ) -> list[ComparedOutput]:  # fmt: skip
            x = activations(random, n, 2 * width, dtype, device, apart)
            expected = ops.silu_and_mul(x.cpu())
            # Below -88 the exponential of float32 overflows, and the result, under 2^-119 of the factor, may be 0.
            up = x.cpu().double().chunk(2, dim=-1)[1].abs()
            return [compare("the output", entry(x), expected.value, expected.bound + 2.0**-119 * up)]

        yield Case(f"{number}: {n} x {width}, {dtype}{', apart' if apart else ''}", run)
