"""`quantise_per_token(x, dtype, *, group_size)`: codes and scales bit for bit, by the formats' definitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from sglang_platform.conformance.kernels.case import Case, ComparedOutput, bit_equal, compare
from sglang_platform.conformance.kernels.checks.random_rows import BATCHES, generators
from sglang_platform.conformance.kernels.checks.rms_norm import DTYPES, activations
from sglang_platform.conformance.kernels.tested import as_target, fp8_dtypes, targets
from sglang_platform.conformance.oracles import ops
from sglang_platform.conformance.oracles.fp8 import encode_saturating
from sglang_platform.conformance.oracles.precision import format_of
from sglang_platform.core.contract.kernels import KernelTarget

__all__ = ["cases"]

_WIDTHS = ((64, None), (1, None), (96, 32), (512, 128), (1000, None), (2048, None))


def cases(entry: Callable[..., Any], device: torch.device, seed: int) -> Iterator[Case]:
    for number, random in generators(36, seed):
        n, (width, group) = BATCHES[number % len(BATCHES)], _WIDTHS[number % len(_WIDTHS)]
        formats = fp8_dtypes()
        # Every eighth moves on by one, so that no format keeps to the batches of one parity.
        dtype = formats[(number + number // 8) % len(formats)]
        target = targets()[number // len(formats) % len(targets())]
        source, apart = DTYPES[number % 3], number % 4 == 1

        def run(
            random: torch.Generator = random, n: int = n, width: int = width, group: int | None = group,
            dtype: torch.dtype = dtype, target: KernelTarget | None = target,
            source: torch.dtype = source, apart: bool = apart,
        ) -> list[ComparedOutput]:  # fmt: skip
            return _run(
                entry, device, activations(random, n, width, source, device, apart), group, dtype, target
            )

        yield Case(
            f"{number}: {n} x {width} in groups of {group}, {source} to {dtype}, {target and target.name}",
            run,
        )


def _run(
    entry: Callable[..., Any],
    device: torch.device,
    x: torch.Tensor,
    group: int | None,
    dtype: torch.dtype,
    target: KernelTarget | None,
) -> list[ComparedOutput]:
    n, width = x.shape
    groups = x.cpu().float().numpy().reshape(n, width // (group or width), group or width)
    scales = np.abs(groups).max(axis=-1, keepdims=True, initial=0) / np.float32(format_of(dtype).largest)
    scales = np.where(scales == 0, np.float32(1), scales).astype(np.float32)
    codes = encode_saturating((groups / scales).astype(np.float64), dtype).reshape(n, width)
    with as_target(target, device):
        got, got_scales = entry(x, dtype, group_size=group)
    # The same by value, in float64, with the derived bound.
    rounded, scale = ops.per_token_fp8(torch.from_numpy(groups.copy()), dtype)
    value = got.cpu().float().double().reshape(groups.shape) * got_scales.cpu().double().unsqueeze(-1)
    zero = torch.from_numpy(scales == 1) & (scale.value == 0)
    return [
        bit_equal("the codes", got.view(torch.uint8), torch.from_numpy(codes)),
        bit_equal("the scales", got_scales, torch.from_numpy(scales[..., 0].copy())),
        compare("the values", value, rounded.value, torch.where(zero, 1e-30, rounded.bound)),
    ]
