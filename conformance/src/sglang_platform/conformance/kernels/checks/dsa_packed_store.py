"""`store_packed(nope, rope, out, loc, *, dtype)`: the bytes of DSA's packed rows, and nothing else written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from sglang_platform.conformance.kernels.case import Case, ComparedOutput, bit_equal
from sglang_platform.conformance.kernels.checks.random_rows import (
    BATCHES,
    LAYOUTS,
    generators,
    rows,
    slots,
)
from sglang_platform.conformance.kernels.tested import as_target, fp8_dtypes, targets
from sglang_platform.conformance.oracles.fp8 import encode_saturating
from sglang_platform.conformance.oracles.precision import format_of
from sglang_platform.conformance.oracles.stored_bytes import stored_bytes
from sglang_platform.core.contract.kernels import KernelTarget

__all__ = ["cases"]

_TILE = 128


def cases(entry: Callable[..., Any], device: torch.device, seed: int) -> Iterator[Case]:
    for number, random in generators(32, seed):
        n = BATCHES[number % len(BATCHES)]
        rank, rope = ((512, 64), (128, 64), (256, 32), (128, 0))[number // 2 % 4]
        formats = fp8_dtypes()
        dtype = formats[(number + number // 8) % len(formats)]
        target = targets()[number // len(formats) % len(targets())]
        source = (torch.bfloat16, torch.float16, torch.float32)[number // 3 % 3]
        layout = LAYOUTS[number % 2]

        def run(
            random: torch.Generator = random, n: int = n, rank: int = rank, rope: int = rope,
            dtype: torch.dtype = dtype, target: KernelTarget | None = target,
            source: torch.dtype = source, layout: str = layout,
        ) -> list[ComparedOutput]:  # fmt: skip
            return _run(entry, device, random, n, rank, rope, dtype, target, source, layout)

        yield Case(
            f"{number}: {n} rows of {rank} + {rope} from {source} to {dtype}, {layout}, {target and target.name}",
            run,
        )


def _run(
    entry: Callable[..., Any], device: torch.device, random: torch.Generator, n: int, rank: int, width: int,
    dtype: torch.dtype, target: KernelTarget | None, source: torch.dtype, layout: str,
) -> list[ComparedOutput]:  # fmt: skip
    # A finite spread: an infinite value makes a tile's scale infinite and its other values NaN.
    nope = rows(random, n, 1, rank, torch.float32, LAYOUTS[0], device).clamp(-3e4, 3e4).to(source)
    if n:
        nope[0, 0, :_TILE] = 0.0
    if layout != LAYOUTS[0]:
        nope = torch.cat((nope, nope), dim=-1)[..., :rank]
    rope = rows(random, n, 1, width, torch.float32, LAYOUTS[0], device).clamp(-3e4, 3e4).to(source)
    row = rank + rank // _TILE * 4 + 2 * width
    capacity = n + 4
    out = torch.full((capacity, 1, row), 0x7F, dtype=torch.uint8, device=device)
    loc = slots(random, n, capacity, torch.int64, device)
    expected = out.cpu().clone()
    if n:
        expected[loc.cpu(), 0] = torch.from_numpy(_packed(nope.cpu(), rope.cpu(), dtype))
    with as_target(target, device):
        entry(nope, rope, out, loc, dtype=dtype)
    return [bit_equal("the buffer", out, expected)]


def _packed(nope: torch.Tensor, rope: torch.Tensor, dtype: torch.dtype) -> np.ndarray:
    n = nope.shape[0]
    tiles = nope.float().numpy().reshape(n, -1, _TILE)
    scales = np.abs(tiles).max(axis=-1, keepdims=True) / np.float32(format_of(dtype).largest)
    scales = np.where(scales == 0, np.float32(1), scales).astype(np.float32)
    codes = encode_saturating((tiles / scales).astype(np.float64), dtype).reshape(n, -1)
    tail = stored_bytes(rope.reshape(n, -1), torch.bfloat16)
    return np.concatenate((codes, scales.reshape(n, -1).view(np.uint8), tail.reshape(n, -1)), axis=1)
