"""Sparse MLA over selected slots: `paged_decode` of a package with a table of slots per token, over
plain latent rows and over packed 8-bit rows.

The bound is that of `attention_oracle`, with the latent rounded once more to the query's type where it is unpacked.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import torch

from sglang_platform.conformance.kernels.case import Case, ComparedOutput, compare
from sglang_platform.conformance.kernels.checks.attention_oracle import Rule, attention
from sglang_platform.conformance.kernels.tested import fp8_dtypes, on_some_target
from sglang_platform.conformance.oracles.fp8 import decode

__all__ = ["cases"]


def cases(entry: Callable[..., Any], device: torch.device, seed: int) -> Iterator[Case]:
    """Selections from one slot to all; unused slots are NaN; -1 behind the last selected."""
    rng = random.Random(f"sparse {seed}")
    for number in range(32):
        rank, rope = rng.choice(((128, 16), (128, 64), (256, 32))) if number else (512, 64)
        packed = rng.choice((None, *fp8_dtypes())) if number else fp8_dtypes()[0]
        counts = (
            [rng.choice((0, 1, rng.randint(1, 60))) for _ in range(rng.randint(1, 3))] if number > 1 else []
        )
        heads, topk, splits = rng.choice((1, 8, 16, 40)), 64, rng.choice((1, 2, 5))
        counts = [40] if number == 0 else counts
        a = (rank, rope, packed, counts, heads, topk, splits)

        def run(a: tuple[Any, ...] = a, tag: str = f"{seed} {number}") -> list[ComparedOutput]:
            return _run(entry, device, tag, *a)

        kind = "plain" if packed is None else f"packed {packed}"
        yield Case(f"selected={counts} rank={rank}+{rope} heads={heads} splits={splits} {kind}", run)


def _run(
    entry: Callable[..., Any],
    device: torch.device,
    tag: str,
    rank: int,
    rope: int,
    packed: torch.dtype | None,
    counts: list[int],
    heads: int,
    topk: int,
    splits: int,
) -> list[ComparedOutput]:
    rng = random.Random(tag)
    generator = torch.Generator().manual_seed(rng.getrandbits(31))
    slots, dtype = 90, torch.bfloat16
    latent, rotated = (torch.randn((slots, n), generator=generator) for n in (rank, rope))
    if packed is None:
        content = torch.cat((latent, rotated), 1).to(dtype)
        values = content.double()
        cache = content[:, None]
    else:
        codes = torch.randint(0, 256, (slots, rank), generator=generator, dtype=torch.uint8)
        codes[(codes & 0x7F) == 0x7F] = 1
        codes[codes == 0x80] = 2
        scales = torch.rand((slots, rank // 128), generator=generator) * 0.02 + 1e-3
        bf16 = rotated.to(dtype)
        row = (codes, scales.view(torch.uint8), bf16.view(torch.uint8))
        cache = torch.cat(row, 1)[:, None]
        wide = torch.from_numpy(decode(codes.numpy(), packed)) * scales.double().repeat_interleave(128, 1)
        values = torch.cat((wide, bf16.double()), 1)
    tokens = len(counts)
    table = torch.full((tokens, topk), -1, dtype=torch.int32)
    chosen = [torch.tensor(rng.sample(range(1, slots), n), dtype=torch.long) for n in counts]
    for t, at in enumerate(chosen):
        table[t, : len(at)] = at.int()
    unused = torch.ones(slots, dtype=torch.bool)
    unused[torch.cat([*chosen, torch.zeros(0, dtype=torch.long)])] = False
    cache = cache.clone()
    cache[unused] = 0xFF if packed is not None else float("nan")
    q = torch.randn((tokens, heads, rank + rope), generator=generator).to(dtype)
    out = torch.full((tokens, heads, rank), float("nan"), dtype=dtype, device=device)
    on_device = cache.to(device)
    with on_some_target(rng, device):
        entry(
            q.to(device),
            on_device,
            on_device[..., :rank],
            table.to(device),
            torch.arange(tokens, device=device),
            torch.tensor(counts, dtype=torch.int64, device=device),
            out,
            scale=(rank + rope) ** -0.5,
            packed=packed,
            splits=splits,
        )
    rule = Rule(scale=(rank + rope) ** -0.5, rounds_keys=packed is not None)
    answers = [
        attention(
            q[t : t + 1], values[at][:, None], values[at][:, None, :rank], rule, max(len(at) - 1, 0), dtype
        )
        for t, at in enumerate(chosen)
    ]
    empty = torch.zeros((0, heads, rank), dtype=torch.float64)
    return [
        compare(
            "out",
            out,
            torch.cat([empty, *(a[0] for a in answers)]),
            torch.cat([empty, *(a[1] for a in answers)]),
        )
    ]
