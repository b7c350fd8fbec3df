"""The indexer's logits of sparse attention: `index_logits` of a package, or one of its signature.

    logits[t, s] = c_s * sum_h w[t, h] * max(0, q[t, h] . k_s)

Bound: queries and 8-bit keys are exact, so a product errs by gamma(D, u32) sum_d |q k|; the maximum with zero does not
increase that; the sum over H heads and the two products by w and c add gamma(H + 4, u32) of the sum of magnitudes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from sglang_platform.conformance.kernels.case import Case, ComparedOutput, compare
from sglang_platform.conformance.kernels.tested import fp8_dtypes, on_some_target
from sglang_platform.conformance.oracles.fp8 import decode
from sglang_platform.conformance.oracles.precision import format_of, gamma

__all__ = ["cases"]


def cases(entry: Callable[..., Any], device: torch.device, seed: int) -> Iterator[Case]:
    """Lengths around a page's and a block's edge, one token, none; several new tokens of a request, some past the edge
    of a tile; unused keys are NaN, unused scales huge."""
    rng = random.Random(f"index {seed}")
    fixed: list[tuple[list[int], list[int], int, int, int]] = [
        ([], [], 64, 64, 128),
        ([1], [1], 1, 64, 128),
        ([64], [1], 64, 64, 128),
        ([65, 0, 63], [1, 1, 1], 64, 16, 128),
        ([130], [1], 16, 32, 64),
        ([70, 33, 1], [40, 33, 1], 64, 16, 32),
        ([64, 65], [2, 1], 16, 16, 32),
    ]
    for number in range(36):
        if number < len(fixed):
            lengths, news, page, heads, dim = fixed[number]
        else:
            lengths = [rng.choice((1, rng.randint(1, 150))) for _ in range(rng.randint(1, 3))]
            news = [rng.choice((1, rng.randint(1, min(n, 6)))) for n in lengths]
            page, heads, dim = rng.choice((1, 16, 64)), rng.choice((4, 16, 20, 64)), rng.choice((32, 64, 128))
        dtype = rng.choice((torch.bfloat16, torch.float16, torch.float32))
        key_dtype = rng.choice(fp8_dtypes())
        name = f"n={lengths} new={news} page={page} heads={heads} d={dim} {dtype} keys={key_dtype}"
        arguments = (lengths, news, page, heads, dim, dtype, key_dtype)

        def run(a: tuple[Any, ...] = arguments, tag: str = f"{seed} {number}") -> list[ComparedOutput]:
            return _run(entry, device, tag, *a)

        yield Case(name, run)


def _run(
    entry: Callable[..., Any],
    device: torch.device,
    tag: str,
    lengths: list[int],
    news: list[int],
    page: int,
    heads: int,
    dim: int,
    dtype: torch.dtype,
    key_dtype: torch.dtype,
) -> list[ComparedOutput]:
    rng = random.Random(tag)
    generator = torch.Generator().manual_seed(rng.getrandbits(31))
    requests, tokens = len(lengths), sum(news)
    pages = 2 + sum(-(-n // page) for n in lengths)
    # All codes are NaN and all scales huge until a token owns the slot.
    nan = 0x80 if key_dtype == torch.float8_e4m3fnuz else 0x7F
    buffer = torch.full((pages, page * (dim + 4)), nan, dtype=torch.uint8)
    buffer[:, page * dim :] = torch.full((pages, page), 3e38).view(torch.uint8)
    free = list(range(1, pages))
    rng.shuffle(free)
    width = max([*lengths, 1]) + rng.randrange(3)
    table = torch.full((requests + 2, width), 1 << 30, dtype=torch.int32)
    rows = rng.sample(range(requests + 2), requests)
    keys, scales = [], []
    for row, n in zip(rows, lengths, strict=True):
        own = [free.pop() for _ in range(-(-n // page))]
        codes = torch.randint(0, 256, (n, dim), generator=generator, dtype=torch.uint8)
        codes[(codes & 0x7F) == 0x7F] = 1
        codes[codes == 0x80] = 2
        scale = torch.rand(n, generator=generator) + 0.01
        for i in range(n):
            at, within = own[i // page], i % page
            table[row, i] = at * page + within
            buffer[at, within * dim : (within + 1) * dim] = codes[i]
            first = page * dim + 4 * within
            buffer[at, first : first + 4] = scale[i : i + 1].view(torch.uint8)
        keys.append(torch.from_numpy(decode(codes.numpy().astype(np.uint8), key_dtype)))
        scales.append(scale.double())
    # For each new token its request, and how many tokens it sees: all of them the last, one less the one before.
    owner = [request for request, new in enumerate(news) for _ in range(new)]
    seen = [n - new + 1 + i if n else 0 for n, new in zip(lengths, news, strict=True) for i in range(new)]
    q = torch.randn((tokens, heads + 1, dim), generator=generator).to(dtype)[:, :heads]
    weights = torch.randn((tokens, heads), generator=generator)
    with on_some_target(rng, device):
        got = entry(
            q.to(device),
            weights.to(device),
            buffer.to(device),
            table.to(device),
            torch.tensor([rows[request] for request in owner], dtype=torch.int64, device=device),
            torch.tensor(seen, dtype=torch.int64, device=device),
            page_size=page,
            width=width,
            key_dtype=key_dtype,
            runs=tokens > requests,
        )
    outcomes = []
    u32 = format_of(torch.float32).unit_roundoff
    for t, (request, n) in enumerate(zip(owner, seen, strict=True)):
        key, scale = keys[request][:n], scales[request][:n]
        products = torch.einsum("hd,sd->hs", q[t].double(), key)
        absolute = torch.einsum("hd,sd->hs", q[t].double().abs(), key.abs())
        w = weights[t].double()[:, None]
        expected = (products.clamp(min=0) * w).sum(0) * scale
        bound = (absolute * w.abs()).sum(0) * scale * (gamma(dim, u32) + gamma(heads + 4, u32)) + 1e-37
        outcomes.append(compare(f"logits of token {t}", got[t, :n], expected, bound))
    return outcomes or [compare("logits", got, torch.zeros(got.shape, dtype=torch.float64), 0.0)]
