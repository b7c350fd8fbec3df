"""`rotate_and_store(positions, query, key, value, head_dim, cos_sin_cache, k_out, v_out, loc, k_scale, v_scale, *,
neox, slots)`: query and key in place within the bound of `oracles.ops.rotary_embedding`, and every byte of both caches.

A cache holds what the formats' definitions make of the key that stands in place, and of the value. Rows that are not
named keep the poison they held; among those that are named are the padding slot, the last one, and a slot below zero,
where nothing may be stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from sglang_platform.conformance.kernels.case import Case, ComparedOutput, bit_equal, compare
from sglang_platform.conformance.kernels.checks.random_rows import generators, poisoned
from sglang_platform.conformance.kernels.tested import as_target, fp8_dtypes, targets
from sglang_platform.conformance.oracles import ops
from sglang_platform.conformance.oracles.fp8 import FP8
from sglang_platform.conformance.oracles.stored_bytes import raw_bytes, stored_bytes
from sglang_platform.core.contract.kernels import KernelTarget

__all__ = ["cases"]

# head_dim, rotated part, query heads, key heads, columns of a head of values
_SHAPES = (
    (64, 64, 8, 1, 64),
    (128, 128, 7, 2, 128),
    (80, 80, 5, 5, 80),
    (128, 64, 8, 2, 128),
    (192, 64, 3, 1, 128),
    (256, 64, 4, 2, 256),
    (96, 96, 2, 1, 96),
    (16, 2, 1, 1, 16),
)
_TOKENS = (1, 7, 0, 5, 64, 3, 2)
_SOURCES = (torch.bfloat16, torch.float16)


def cases(entry: Callable[..., Any], device: torch.device, seed: int) -> Iterator[Case]:
    for number, random in generators(56, seed):
        shape, n, source = _SHAPES[number % 8], _TOKENS[number % 7], _SOURCES[number // 3 % 2]
        dtypes = (source, *fp8_dtypes(), torch.float32)
        dtype = dtypes[number % len(dtypes)]
        scales = ("none", "number", "tensor")[number // 7 % 3]
        neox, renumbered = number // 4 % 2 == 0, number % 5 == 1
        target = targets()[number % len(targets())]

        def run(
            random: torch.Generator = random, n: int = n, shape: tuple[int, int, int, int, int] = shape,
            source: torch.dtype = source, dtype: torch.dtype = dtype, scales: str = scales, neox: bool = neox,
            renumbered: bool = renumbered, target: KernelTarget | None = target,
        ) -> list[ComparedOutput]:  # fmt: skip
            with as_target(target, device):
                return _run(entry, device, random, n, shape, source, dtype, scales, neox, renumbered)

        yield Case(
            f"{number}: {n} tokens, {shape}, {source} to {dtype}, scale {scales}, {'neox' if neox else 'gptj'}"
            f"{', renumbered' if renumbered else ''}, {target and target.name}",
            run,
        )


def _run(
    entry: Callable[..., Any], device: torch.device, random: torch.Generator, n: int,
    shape: tuple[int, int, int, int, int], source: torch.dtype, dtype: torch.dtype, scales: str, neox: bool,
    renumbered: bool,
) -> list[ComparedOutput]:  # fmt: skip
    head_dim, rotated, query_heads, key_heads, value_dim = shape
    longest, capacity = 50, n + 4
    angles = torch.rand((longest, rotated // 2), generator=random) * 6.28
    table = torch.cat((angles.cos(), angles.sin()), dim=-1).to(device)
    positions = torch.randint(0, longest, (n,), generator=random)
    if n:
        positions[-1] = longest - 1
    # Query, key and value lie side by side, as the fused projection leaves them.
    widths = (query_heads * head_dim, key_heads * head_dim, key_heads * value_dim)
    fused = torch.randn((n, sum(widths)), generator=random) * 4
    if n and dtype in FP8:
        fused[0, -1], fused[-1, -2], fused[0, -3] = float("nan"), 1e4, -1e-4
    fused = fused.to(source).to(device)
    query, key, value = fused.split(widths, dim=1)
    expected = [
        ops.rotary_embedding(positions, x.cpu().clone(), head_dim, table.cpu(), neox) for x in (query, key)
    ] if n else []  # fmt: skip
    # Rows of a wider buffer, poisoned between them too.
    kept = torch.uint8 if dtype in FP8 else dtype
    buffer = poisoned(capacity, sum(widths[1:]), dtype=kept, device=device)
    named, loc, slots = _places(random, n, capacity, renumbered)
    k_scale, v_scale = _scales(scales, device)
    integers = (torch.int64, torch.int32)[n % 2]
    k_out, v_out = (part.view(dtype) for part in buffer.split(widths[1:], dim=1))
    given_value = value.cpu().clone()
    entry(
        positions.to(integers).to(device), query, key, value, head_dim, table, k_out, v_out,
        loc.to(integers).to(device), k_scale, v_scale, neox=neox, slots=None if slots is None else slots.to(device),
    )  # fmt: skip
    wanted = poisoned(capacity, sum(widths[1:]), dtype=kept, device=torch.device("cpu"))
    bytes_of = torch.from_numpy(raw_bytes(wanted))
    if n:
        new = [_bytes(key, dtype, k_scale), _bytes(value, dtype, v_scale)]
        live = named >= 0
        bytes_of[named[live]] = torch.from_numpy(np.concatenate(new, axis=1))[live]
    found = [bit_equal("the caches", torch.from_numpy(raw_bytes(buffer)), bytes_of)]
    if n:
        found.append(compare("the query", query, expected[0].value, expected[0].bound))
        found.append(compare("the key", key, expected[1].value, expected[1].bound))
        found.append(bit_equal("the value in its place", value.cpu(), given_value))
    return found


def _places(
    random: torch.Generator, n: int, capacity: int, renumbered: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """The row that each token is stored at, and what the kernel is told of it."""
    between = torch.randperm(capacity - 2, generator=random)[: max(n - 2, 0)] + 1
    named = torch.cat((torch.tensor([capacity - 1, 0]), between))[:n]
    if n > 2:
        named[2] = -1
    named = named[torch.randperm(n, generator=random)]
    if not renumbered:
        return named, named, None
    loc = torch.randperm(3 * capacity, generator=random)[:n]
    slots = torch.full((3 * capacity,), -1)
    slots[loc] = named
    return named, loc, slots


def _scales(kind: str, device: torch.device) -> tuple[Any, Any]:
    if kind == "none":
        return None, None
    if kind == "number":
        return 0.37, 3.0
    return torch.tensor([1.7e-1], device=device), torch.tensor(5.3, device=device)


def _bytes(x: torch.Tensor, dtype: torch.dtype, scale: Any) -> Any:
    if scale is None or x.dtype == dtype:
        return stored_bytes(x, dtype)
    quotient = x.cpu().float().numpy() / np.float32(float(scale))
    return stored_bytes(torch.from_numpy(quotient), dtype)
