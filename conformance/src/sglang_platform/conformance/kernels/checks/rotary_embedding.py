"""`rotary_embedding(positions, query, key, head_dim, cos_sin_cache, *, neox)` in place, within the bound of
`oracles.ops.rotary_embedding`; what lies between rows and behind the rotated part stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from sglang_platform.conformance.kernels.case import Case, ComparedOutput, bit_equal, compare
from sglang_platform.conformance.kernels.checks.random_rows import BATCHES, generators
from sglang_platform.conformance.kernels.checks.rms_norm import DTYPES
from sglang_platform.conformance.oracles import ops

__all__ = ["cases"]

# head_dim, rotated part, query heads, key heads
_SHAPES = ((128, 128, 8, 2), (64, 32, 3, 1), (128, 64, 5, 5), (96, 96, 4, 1), (16, 2, 1, 1), (192, 64, 2, 1))


def cases(entry: Callable[..., Any], device: torch.device, seed: int) -> Iterator[Case]:
    for number, random in generators(36, seed):
        n, shape = BATCHES[number % len(BATCHES)], _SHAPES[number % len(_SHAPES)]
        dtype, neox = DTYPES[number % 3], number // 3 % 2 == 0

        def run(
            random: torch.Generator = random, n: int = n, shape: tuple[int, int, int, int] = shape,
            dtype: torch.dtype = dtype, neox: bool = neox,
        ) -> list[ComparedOutput]:  # fmt: skip
            return _run(entry, device, random, n, shape, dtype, neox)

        yield Case(f"{number}: {n} tokens, {shape}, {dtype}, {'neox' if neox else 'gptj'}", run)


def _run(
    entry: Callable[..., Any], device: torch.device, random: torch.Generator, n: int,
    shape: tuple[int, int, int, int], dtype: torch.dtype, neox: bool,
) -> list[ComparedOutput]:  # fmt: skip
    head_dim, rotated, query_heads, key_heads = shape
    longest = 50
    angles = torch.rand((longest, rotated // 2), generator=random) * 6.28
    cache = torch.cat((angles.cos(), angles.sin()), dim=-1).to(torch.float32 if n % 2 else dtype).to(device)
    positions = torch.randint(0, longest, (n,), generator=random)
    if n:
        positions[-1] = longest - 1
    # Query, key and value lie side by side, as the fused projection leaves them.
    q_width, k_width = query_heads * head_dim, key_heads * head_dim
    fused = torch.randn((n, q_width + 2 * k_width), generator=random).to(dtype).to(device)
    query, key = fused[:, :q_width], fused[:, q_width : q_width + k_width]
    value = fused[:, q_width + k_width :].cpu().clone()
    if n == 0:
        entry(positions.to(device), query, key, head_dim, cache, neox=neox)
        return [bit_equal("the value beside them", fused[:, q_width + k_width :].cpu(), value)]
    expected = [
        ops.rotary_embedding(positions, x.cpu().clone(), head_dim, cache.cpu(), neox) for x in (query, key)
    ]
    positions = positions.to((torch.int64, torch.int32)[n % 2]).to(device)
    entry(positions, query, key, head_dim, cache, neox=neox)
    return [
        compare("the query", query, expected[0].value, expected[0].bound),
        compare("the key", key, expected[1].value, expected[1].bound),
        bit_equal("the value beside them", fused[:, q_width + k_width :].cpu(), value),
    ]
