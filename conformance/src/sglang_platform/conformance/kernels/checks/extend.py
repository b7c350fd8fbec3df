"""Paged extend attention: `paged_extend` of a package, or a kernel of its signature."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch

from sglang_platform.conformance.kernels.case import Case, ComparedOutput, compare
from sglang_platform.conformance.kernels.checks.attention_oracle import Rule, attention
from sglang_platform.conformance.kernels.checks.paged_cache import random_cache, strided
from sglang_platform.conformance.kernels.tested import fp8_dtypes, on_some_target

__all__ = ["ExtendProblem", "cases", "run", "shapes"]


@dataclass(frozen=True)
class ExtendProblem:
    """One case. `prefix` and `new`: tokens per request. `stored`: the new keys are in the cache, not beside it."""

    prefix: tuple[int, ...]
    new: tuple[int, ...]
    kv_heads: int
    group: int
    dim: int
    value_dim: int
    page: int
    dtype: torch.dtype
    kv: torch.dtype
    stored: bool = False
    latent: bool = False
    causal: bool = True
    logit_cap: float = 0.0
    window: int = -1
    sinks: bool = False
    pad: int = 0
    spread: float = 1.0
    splits: int = 1

    @property
    def name(self) -> str:
        tokens = ",".join(f"{p}+{n}" for p, n in zip(self.prefix, self.new, strict=True)) or "empty"
        kind = "mla" if self.latent else f"{self.kv_heads}x{self.group}"
        words = [f"n={tokens}", kind, f"d={self.dim}/{self.value_dim}", f"page={self.page}"]
        words += [str(self.dtype).removeprefix("torch."), "kv=" + str(self.kv).removeprefix("torch.")]
        words += ["stored"] if self.stored else []
        words += [] if self.causal else ["not causal"]
        words += [f"cap={self.logit_cap:g}"] if self.logit_cap else []
        words += [f"window={self.window}"] if self.window >= 0 else []
        words += ["sinks"] if self.sinks else []
        words += [f"pad={self.pad}"] if self.pad else []
        words += [f"splits={self.splits}"] if self.splits > 1 else []
        return " ".join(words)


_F32, _BF16, _F16 = torch.float32, torch.bfloat16, torch.float16
_FIXED = (
    # Nothing, no new tokens, one token with and without a prefix, all around the edges of a block of 16.
    ExtendProblem((), (), 2, 2, 64, 64, 16, _BF16, _BF16),
    ExtendProblem((5, 0), (0, 3), 1, 2, 32, 32, 4, _F32, _F32),
    ExtendProblem((0,), (1,), 1, 1, 16, 16, 1, _F32, _F32),
    ExtendProblem((37,), (1,), 1, 2, 64, 64, 16, _BF16, _BF16),
    ExtendProblem((0, 0, 0), (15, 16, 17), 1, 2, 32, 32, 4, _F32, _F32),
    ExtendProblem((16, 15, 17), (33, 16, 1), 1, 1, 32, 32, 16, _F32, _F32),
    # Chunks of one prompt, whose later ones see the earlier ones.
    ExtendProblem((0, 32, 64), (32, 32, 7), 1, 2, 64, 64, 16, _F32, _F32),
    # New keys in the cache, with and without prefix; absorbed MLA, which is always so.
    ExtendProblem((20, 0), (20, 45), 2, 2, 64, 64, 4, _F32, _F32, stored=True),
    ExtendProblem((20, 0), (20, 45), 1, 4, 64, 64, 4, _BF16, torch.float8_e4m3fn, stored=True),
    ExtendProblem((21, 3), (18, 5), 1, 3, 80, 64, 16, _F32, _F32, stored=True, latent=True),
    ExtendProblem((30,), (20,), 1, 2, 576, 512, 64, _BF16, _BF16, stored=True, latent=True),
    # 8-bit prefix with scales beside new keys that have none.
    ExtendProblem((40, 9), (12, 30), 2, 2, 64, 64, 16, _BF16, torch.float8_e4m3fn),
    ExtendProblem((40,), (12,), 1, 4, 128, 128, 16, _F16, torch.float8_e5m2),
    # Windows within and beyond the new tokens, that begin in the prefix, at its edge, after it.
    ExtendProblem((40, 0), (40, 60), 1, 2, 32, 32, 4, _F32, _F32, window=5),
    ExtendProblem((40, 8), (20, 20), 1, 2, 32, 32, 4, _F32, _F32, window=20),
    ExtendProblem((40,), (20,), 1, 2, 32, 32, 4, _F32, _F32, window=0),
    ExtendProblem((50, 3), (20, 40), 1, 2, 32, 32, 16, _F32, _F32, stored=True, window=17),
    ExtendProblem((40, 0), (40, 60), 1, 2, 64, 64, 16, _F32, _F32, sinks=True, window=30),
    # The cached keys in parts: fewer blocks than parts, new keys in the last one or in the cache, windows that leave
    # parts without keys, sinks, a group that no power of two divides.
    ExtendProblem((90, 5), (3, 20), 1, 2, 32, 32, 4, _F32, _F32, splits=3),
    ExtendProblem((70, 0), (7, 1), 1, 3, 64, 64, 16, _BF16, torch.float8_e4m3fn, sinks=True, splits=2),
    ExtendProblem(
        (100, 40), (5, 30), 2, 2, 32, 32, 4, _F32, _F32, stored=True, window=30, sinks=True, splits=4
    ),
    ExtendProblem((60,), (4,), 1, 20, 80, 64, 16, _F32, _F32, stored=True, latent=True, splits=3),
    # Prefixes around the edges of whole blocks, which no row masks: of 16 (float32), and of 128 at most.
    ExtendProblem((32, 31, 33), (17, 1, 2), 1, 2, 32, 32, 4, _F32, _F32),
    ExtendProblem((127, 128, 129), (2, 1, 3), 1, 2, 64, 64, 16, _BF16, _BF16),
    ExtendProblem((257, 64), (3, 18), 1, 4, 128, 128, 64, _BF16, torch.float8_e4m3fn),
    ExtendProblem((64, 15, 47), (40, 17, 33), 1, 2, 32, 32, 16, _F32, _F32, stored=True),
    ExtendProblem((150, 90), (40, 130), 1, 1, 64, 64, 16, _BF16, torch.float8_e4m3fn, stored=True),
    ExtendProblem((130,), (40,), 1, 3, 64, 64, 16, _BF16, _BF16, stored=True, causal=False),
    # Windows of several blocks: masked ones on both sides of those that every row sees.
    ExtendProblem((160, 96), (40, 9), 1, 2, 32, 32, 4, _F32, _F32, window=100),
    ExtendProblem((160, 33), (40, 64), 1, 2, 32, 32, 4, _F32, _F32, stored=True, window=95, splits=2),
    ExtendProblem((520,), (33,), 1, 2, 64, 64, 16, _BF16, torch.float8_e4m3fn, window=400, sinks=True),
    # An encoder, soft caps, large scores.
    ExtendProblem((0, 0), (33, 70), 1, 2, 64, 64, 16, _F32, _F32, causal=False),
    ExtendProblem((30, 10), (20, 20), 2, 1, 64, 64, 4, _F32, _F32, logit_cap=5.0, spread=4.0),
    ExtendProblem((30, 10), (20, 20), 2, 1, 64, 64, 4, _BF16, _BF16, sinks=True, spread=4.0),
    ExtendProblem((30, 10), (20, 20), 1, 1, 192, 128, 4, _F32, _F32, spread=20.0),
)


def shapes(seed: int, random_count: int = 20) -> Iterator[ExtendProblem]:
    """The fixed ones, then random ones."""
    yield from _FIXED
    rng = random.Random(f"extend {seed}")
    for _ in range(random_count):
        dtype = rng.choice((_BF16, _BF16, _F16, _F32))
        kv = rng.choice((dtype, dtype, *fp8_dtypes())) if dtype != _F32 else dtype
        dim = rng.choice((32, 64, 64, 80, 96, 128))
        page = rng.choice((1, 4, 16, 64))
        requests = rng.randint(1, 3)
        yield ExtendProblem(
            tuple(rng.choice((0, page, page + 1, rng.randint(0, 70))) for _ in range(requests)),
            tuple(rng.choice((1, 16, 17, rng.randint(1, 60))) for _ in range(requests)),
            rng.choice((1, 2)),
            rng.choice((1, 2, 3)),
            dim,
            rng.choice((dim, 32)),
            page,
            dtype,
            kv,
            stored=rng.random() < 0.25,
            causal=rng.random() < 0.9,
            logit_cap=rng.choice((0.0, 0.0, 30.0)),
            window=rng.choice((-1, -1, 0, 15, 50)),
            sinks=rng.random() < 0.25,
            pad=rng.choice((0, 0, 16)),
            spread=rng.choice((0.5, 1.0, 3.0)),
            splits=rng.choice((1, 1, 2, 5)),
        )


def cases(entry: Callable[..., Any], device: torch.device, seed: int) -> Iterator[Case]:
    """See `ExtendProblem`."""
    for number, shape in enumerate(shapes(seed)):
        yield Case(shape.name, lambda s=shape, n=number: run(entry, device, s, f"{seed} {n}")[0])  # type: ignore[misc]


def run(
    entry: Callable[..., Any], device: torch.device, shape: ExtendProblem, seed: str
) -> tuple[list[ComparedOutput], Callable[[Rule], ComparedOutput], Rule]:
    """The outcome, the comparison under another rule (for numeric mutants), and the rule."""
    rng = random.Random(f"{seed} {shape.name}")
    generator = torch.Generator().manual_seed(rng.getrandbits(31))
    heads, tokens = shape.kv_heads * shape.group, sum(shape.new)
    total = [p + n for p, n in zip(shape.prefix, shape.new, strict=True)]
    cache = random_cache(
        rng,
        device,
        total if shape.stored else list(shape.prefix),
        heads=shape.kv_heads,
        dim=shape.dim,
        value_dim=shape.value_dim,
        page=shape.page,
        dtype=shape.kv,
        latent=shape.latent,
        pad=shape.pad,
    )

    def made(count: int, columns: int, spread: float) -> torch.Tensor:
        tensor = strided((tokens, count, columns), shape.dtype, device, shape.pad)
        return tensor.copy_(torch.randn(tensor.shape, generator=generator) * spread)

    q = made(heads, shape.dim, shape.spread)
    k_new, v_new = made(shape.kv_heads, shape.dim, 1.0), made(shape.kv_heads, shape.value_dim, 1.0)
    out = strided((tokens, heads, shape.value_dim), shape.dtype, device, shape.pad)
    out.fill_(float("nan"))
    start = [0, *accumulate(shape.new)]
    eight_bit = shape.kv.itemsize == 1
    k_scale, v_scale = (0.37, 1.9) if eight_bit else (1.0, 1.0)
    rule = Rule(
        scale=shape.dim**-0.5,
        logit_cap=shape.logit_cap,
        window=shape.window,
        causal=shape.causal,
        sinks=torch.randn(heads, generator=generator).to(shape.dtype) if shape.sinks else None,
        k_scale=torch.tensor(k_scale).item(),
        v_scale=torch.tensor(v_scale).item(),
    )
    with on_some_target(rng, device):
        entry(
            q,
            None if shape.stored else k_new,
            None if shape.stored else v_new,
            cache.k,
            cache.v,
            cache.table,
            cache.rows,
            torch.tensor(start, dtype=torch.int32, device=device),
            torch.tensor(shape.prefix, dtype=torch.int64, device=device),
            out,
            max_new=max(shape.new, default=0),
            splits=shape.splits,
            scale=rule.scale,
            causal=rule.causal,
            logit_cap=rule.logit_cap,
            window=rule.window,
            sinks=None if rule.sinks is None else rule.sinks.to(device),
            k_scale=torch.tensor([k_scale], device=device) if eight_bit else None,
            v_scale=torch.tensor([v_scale], device=device) if eight_bit else None,
        )

    def against(other: Rule) -> ComparedOutput:
        values = [torch.zeros((0, heads, shape.value_dim), dtype=torch.float64)]
        bounds = list(values)
        for b, p in enumerate(shape.prefix):
            rows = slice(start[b], start[b + 1])
            # Scales belong to what is cached, so they are applied here and not by the oracle.
            k, v = cache.keys(b) * other.k_scale, cache.values(b) * other.v_scale
            if not shape.stored:
                k = torch.cat((k, k_new[rows].cpu().double()))
                v = torch.cat((v, v_new[rows].cpu().double()))
            plain = Rule(other.scale, other.logit_cap, other.window, other.causal, other.sinks)
            value, bound = attention(q[rows].cpu(), k, v, plain, p, shape.dtype)
            values.append(value)
            bounds.append(bound)
        return compare("out", out, torch.cat(values), torch.cat(bounds))

    return [against(rule)], against, rule
