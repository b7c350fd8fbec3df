"""`store_pair(a, b, a_out, b_out, loc, a_scale, b_scale, *, dtype)`: every byte of both buffers is what it must be.

The expected bytes come from the formats' definitions: the float32 quotient by the scale, rounded to nearest even.
Rows that are not named keep the poison they held, and the poison is never read: it would show as NaN.
"""

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
    poisoned,
    rows,
    slots,
)
from sglang_platform.conformance.kernels.tested import as_target, fp8_dtypes, targets
from sglang_platform.conformance.oracles.fp8 import FP8
from sglang_platform.conformance.oracles.stored_bytes import raw_bytes, stored_bytes
from sglang_platform.core.contract.kernels import KernelTarget

__all__ = ["cases"]

_FLOATS = (torch.bfloat16, torch.float16, torch.float32)
_SOURCES = (torch.float32, torch.bfloat16, torch.float16)
_SHAPES = ((1, 8, 8), (2, 16, 16), (3, 24, 16), (1, 64, 8), (2, 128, 128), (4, 72, 40))


def cases(entry: Callable[..., Any], device: torch.device, seed: int) -> Iterator[Case]:
    for number, random in generators(48, seed):
        dtypes = (*_FLOATS, *fp8_dtypes())
        dtype = dtypes[number % len(dtypes)]
        source = _SOURCES[number // len(dtypes) % len(_SOURCES)]
        heads, a_width, b_width = _SHAPES[number % len(_SHAPES)]
        n = BATCHES[number % len(BATCHES)]
        layout = LAYOUTS[number // 3 % len(LAYOUTS)]
        target = targets()[number % len(targets())]
        scales = ("none", "number", "tensor")[number % 3]

        def run(
            random: torch.Generator = random, dtype: torch.dtype = dtype, source: torch.dtype = source,
            shape: tuple[int, int, int] = (heads, a_width, b_width), n: int = n, layout: str = layout,
            target: KernelTarget | None = target, scales: str = scales,
        ) -> list[ComparedOutput]:  # fmt: skip
            return _run(entry, device, random, dtype, source, shape, n, layout, target, scales)

        yield Case(
            f"{number}: {n} rows of {heads}x{a_width} and {heads}x{b_width}, {source} to {dtype}, {layout}, "
            f"scale {scales}, {target and target.name}",
            run,
        )


def _run(
    entry: Callable[..., Any], device: torch.device, random: torch.Generator, dtype: torch.dtype,
    source: torch.dtype, shape: tuple[int, int, int], n: int, layout: str, target: KernelTarget | None, scales: str,
) -> list[ComparedOutput]:  # fmt: skip
    heads, a_width, b_width = shape
    a = rows(random, n, heads, a_width, source, layout, device)
    b = rows(random, n, heads, b_width, source, LAYOUTS[0], device)
    if n and dtype in FP8:
        a[0, 0, 0] = float("nan")
    capacity = n + 5
    kept = torch.uint8 if dtype in FP8 else dtype
    # Rows of a wider buffer, as the two parts of an MLA row are.
    buffer = poisoned(capacity, heads, a_width + b_width, dtype=kept, device=device)
    if heads == 1:
        a_out, b_out = buffer[..., :a_width], buffer[..., a_width:]
    else:
        a_out = poisoned(capacity, heads, a_width, dtype=kept, device=device)
        b_out = poisoned(capacity, heads, b_width, dtype=kept, device=device)
    loc = slots(random, n, capacity, (torch.int64, torch.int32)[n % 2], device)
    a_scale, b_scale = _scales(scales, device)
    expected = [_expected(out, x, loc, dtype, s) for out, x, s in ((a_out, a, a_scale), (b_out, b, b_scale))]
    with as_target(target, device):
        entry(a, b, a_out, b_out, loc, a_scale, b_scale, dtype=dtype)
    names = ("the first buffer", "the second buffer")
    return [
        bit_equal(name, out, want) for name, out, want in zip(names, (a_out, b_out), expected, strict=True)
    ]


def _scales(kind: str, device: torch.device) -> tuple[Any, Any]:
    if kind == "none":
        return None, None
    if kind == "number":
        return 0.37, 3.0
    return torch.tensor([1.7e-2], device=device), torch.tensor(5.3, device=device)


def _expected(
    out: torch.Tensor, x: torch.Tensor, loc: torch.Tensor, dtype: torch.dtype, scale: Any
) -> torch.Tensor:
    want = out.cpu().clone().contiguous()
    if x.shape[0] == 0:
        return want
    if scale is not None and x.dtype != dtype:
        quotient = x.cpu().float().numpy() / np.float32(float(scale))
        stored = stored_bytes(torch.from_numpy(quotient), dtype)
    else:
        stored = stored_bytes(x, dtype)
    view = torch.from_numpy(raw_bytes(want))
    view[loc.cpu().long()] = torch.from_numpy(stored.astype(np.uint8))
    return view.view(out.dtype).reshape(out.shape)
