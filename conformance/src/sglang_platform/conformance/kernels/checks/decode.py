"""Paged decode attention: `paged_decode` of a package, or a kernel of its signature.

paged_decode(q, k_cache, v_cache, table, rows, seq_lens, out, *, scale, logit_cap, window, sinks, k_scale, v_scale,
             page_size, splits) -> out
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from sglang_platform.conformance.kernels.case import Case, ComparedOutput, compare
from sglang_platform.conformance.kernels.checks.attention_oracle import Rule, attention
from sglang_platform.conformance.kernels.checks.paged_cache import random_cache, strided
from sglang_platform.conformance.kernels.tested import fp8_dtypes, on_some_target

__all__ = ["DecodeProblem", "cases", "run", "shapes"]


@dataclass(frozen=True)
class DecodeProblem:
    """One case. `kv`: the cache's dtype."""

    lengths: tuple[int, ...]
    kv_heads: int
    group: int
    dim: int
    value_dim: int
    page: int
    dtype: torch.dtype
    kv: torch.dtype
    splits: int
    latent: bool = False
    logit_cap: float = 0.0
    window: int = -1
    sinks: bool = False
    pad: int = 0
    spread: float = 1.0

    @property
    def name(self) -> str:
        lengths = ",".join(map(str, self.lengths)) or "empty"
        lengths = lengths if len(self.lengths) < 8 else f"{len(self.lengths)} requests"
        kind = "mla" if self.latent else f"{self.kv_heads}x{self.group}"
        words = [
            f"n={lengths}",
            kind,
            f"d={self.dim}/{self.value_dim}",
            f"page={self.page}",
            f"splits={self.splits}",
        ]
        words += [str(self.dtype).removeprefix("torch."), "kv=" + str(self.kv).removeprefix("torch.")]
        words += [f"cap={self.logit_cap:g}"] if self.logit_cap else []
        words += [f"window={self.window}"] if self.window >= 0 else []
        words += ["sinks"] if self.sinks else []
        words += [f"pad={self.pad}"] if self.pad else []
        return " ".join(words)


_FIXED = (
    # An empty batch, a request without tokens, one token, one page, lengths around a page's and a block's edge.
    DecodeProblem((), 2, 4, 64, 64, 16, torch.bfloat16, torch.bfloat16, 1),
    DecodeProblem((0, 5), 1, 4, 64, 64, 4, torch.float32, torch.float32, 1),
    DecodeProblem((0, 70), 1, 4, 32, 32, 4, torch.float32, torch.float32, 2),
    DecodeProblem((1,), 1, 1, 16, 16, 1, torch.float32, torch.float32, 1),
    DecodeProblem((1,), 1, 8, 64, 64, 16, torch.bfloat16, torch.bfloat16, 3),
    DecodeProblem((15, 16, 17), 2, 4, 64, 64, 16, torch.bfloat16, torch.bfloat16, 1, pad=8),
    DecodeProblem((63, 64, 65, 129), 1, 2, 128, 128, 16, torch.float16, torch.float16, 2),
    DecodeProblem((200,), 1, 7, 128, 128, 4, torch.float32, torch.float32, 5),
    # More query heads per KV head than one program takes.
    DecodeProblem((33, 90), 1, 80, 64, 64, 16, torch.bfloat16, torch.bfloat16, 2),
    DecodeProblem((130, 3), 2, 24, 128, 128, 16, torch.float32, torch.float32, 3),
    # A long request among short ones, and more requests than are looked at together.
    DecodeProblem((300, 1, 2, 0, 9), 1, 2, 32, 32, 4, torch.float32, torch.float32, 2),
    DecodeProblem((*[1] * 131, 60, 2), 1, 1, 32, 32, 1, torch.float32, torch.float32, 2, sinks=True),
    # Absorbed MLA, small and at DeepSeek's size.
    DecodeProblem((40, 21), 1, 16, 80, 64, 16, torch.float32, torch.float32, 2, latent=True),
    DecodeProblem((35,), 1, 16, 576, 512, 64, torch.bfloat16, torch.bfloat16, 2, latent=True),
    DecodeProblem((100, 1), 1, 40, 160, 128, 4, torch.bfloat16, torch.float8_e4m3fn, 3, latent=True),
    # A cache of 8 bits over several blocks of one program: what was summed before is weighed anew.
    DecodeProblem((420, 3), 1, 4, 64, 64, 16, torch.bfloat16, torch.float8_e4m3fn, 1, spread=3.0),
    # Pages that a device may copy as they are, with less than a block in the last.
    DecodeProblem((64, 130, 1), 2, 4, 64, 64, 64, torch.bfloat16, torch.bfloat16, 2),
    DecodeProblem((190,), 2, 2, 128, 128, 64, torch.bfloat16, torch.float8_e4m3fn, 1),
    # Large scores: a soft cap that bites, weights that underflow.
    DecodeProblem((150, 20), 2, 2, 64, 64, 4, torch.float32, torch.float32, 2, logit_cap=5.0, spread=4.0),
    DecodeProblem((90,), 1, 4, 64, 64, 4, torch.float32, torch.float32, 1, spread=30.0),
    DecodeProblem((90,), 1, 4, 64, 64, 4, torch.float16, torch.float16, 2, spread=8.0),
    # Windows shorter than a page, than a block, than the sequence; sinks with and without splits.
    DecodeProblem((100, 7), 2, 2, 64, 64, 16, torch.float32, torch.float32, 2, window=3),
    DecodeProblem((100, 64), 1, 4, 64, 64, 16, torch.float32, torch.float32, 1, window=63),
    DecodeProblem((100, 40), 1, 4, 64, 64, 16, torch.float32, torch.float32, 3, window=90, sinks=True),
    DecodeProblem((60, 0), 2, 4, 64, 64, 16, torch.float32, torch.float32, 1, sinks=True),
)


def shapes(seed: int, random_count: int = 24) -> Iterator[DecodeProblem]:
    """The fixed ones, then random ones."""
    yield from _FIXED
    rng = random.Random(f"decode {seed}")
    for _ in range(random_count):
        dtype = rng.choice((torch.bfloat16, torch.bfloat16, torch.float16, torch.float32))
        kv = rng.choice((dtype, dtype, *fp8_dtypes())) if dtype != torch.float32 else dtype
        dim = rng.choice((32, 64, 64, 80, 96, 128, 192))
        page = rng.choice((1, 4, 16, 64))
        yield DecodeProblem(
            tuple(rng.choice((1, page, page + 1, rng.randint(1, 140))) for _ in range(rng.randint(1, 4))),
            rng.choice((1, 2, 3)),
            rng.choice((1, 2, 4, 7, 8, 20)),
            dim,
            rng.choice((dim, 32, 128)),
            page,
            dtype,
            kv,
            rng.choice((1, 1, 2, 3, 8)),
            logit_cap=rng.choice((0.0, 0.0, 30.0)),
            window=rng.choice((-1, -1, 0, 15, 50)),
            sinks=rng.random() < 0.25,
            pad=rng.choice((0, 0, 16)),
            spread=rng.choice((0.5, 1.0, 3.0)),
        )


def cases(entry: Callable[..., Any], device: torch.device, seed: int) -> Iterator[Case]:
    """See `DecodeProblem`."""
    for number, shape in enumerate(shapes(seed)):
        yield Case(shape.name, lambda s=shape, n=number: run(entry, device, s, f"{seed} {n}")[0])  # type: ignore[misc]


def run(
    entry: Callable[..., Any], device: torch.device, shape: DecodeProblem, seed: str
) -> tuple[list[ComparedOutput], Callable[[Rule], ComparedOutput], Rule]:
    """The outcome, the comparison under another rule (for numeric mutants), and the rule."""
    rng = random.Random(f"{seed} {shape.name}")
    generator = torch.Generator().manual_seed(rng.getrandbits(31))
    batch, heads = len(shape.lengths), shape.kv_heads * shape.group
    cache = random_cache(
        rng,
        device,
        list(shape.lengths),
        heads=shape.kv_heads,
        dim=shape.dim,
        value_dim=shape.value_dim,
        page=shape.page,
        dtype=shape.kv,
        latent=shape.latent,
        pad=shape.pad,
    )
    q = strided((batch, heads, shape.dim), shape.dtype, device, shape.pad)
    q.copy_(torch.randn(q.shape, generator=generator) * shape.spread)
    out = strided((batch, heads, shape.value_dim), shape.dtype, device, shape.pad)
    out.fill_(float("nan"))
    eight_bit = shape.kv.itemsize == 1
    k_scale, v_scale = (0.37, 1.9) if eight_bit else (1.0, 1.0)
    rule = Rule(
        scale=shape.dim**-0.5,
        logit_cap=shape.logit_cap,
        window=shape.window,
        sinks=torch.randn(heads, generator=generator).to(shape.dtype) if shape.sinks else None,
        k_scale=torch.tensor(k_scale).item(),
        v_scale=torch.tensor(v_scale).item(),
    )
    with on_some_target(rng, device):
        entry(
            q,
            cache.k,
            cache.v,
            cache.table,
            cache.rows,
            torch.tensor(shape.lengths, dtype=torch.int64, device=device),
            out,
            scale=rule.scale,
            logit_cap=rule.logit_cap,
            window=rule.window,
            sinks=None if rule.sinks is None else rule.sinks.to(device),
            k_scale=torch.tensor([k_scale], device=device) if eight_bit else None,
            v_scale=torch.tensor([v_scale], device=device) if eight_bit else None,
            page_size=shape.page,
            splits=shape.splits,
        )

    def against(other: Rule) -> ComparedOutput:
        value = [torch.zeros((0, heads, shape.value_dim), dtype=torch.float64)]
        bound = list(value)
        for b, n in enumerate(shape.lengths):
            one = attention(
                q[b : b + 1].cpu(), cache.keys(b), cache.values(b), other, max(n - 1, 0), shape.dtype
            )
            value.append(one[0])
            bound.append(one[1])
        return compare("out", out, torch.cat(value), torch.cat(bound))

    return [against(rule)], against, rule
