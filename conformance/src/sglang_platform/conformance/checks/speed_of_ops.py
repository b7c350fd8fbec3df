"""Level 4: the time that fused ops take, beside the same in torch, and how it grows with the rows."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch

from sglang_platform.conformance.check import NotApplicable, check
from sglang_platform.conformance.fixtures.attention_cases import compute_dtypes
from sglang_platform.conformance.fixtures.op_calls import an_op, experts_config, forward_of, norm_op
from sglang_platform.conformance.fixtures.timing import Work, expect_growth, expect_ratio
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import fused_ops
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_ROWS = (64, 512, 4096)
_HEADS = (64, 1024, 16384)
"""As the norms of queries and keys have them: a row for each head of each token."""

_PLACES = (131072, 256)
_WIDTH = 512
_HEAD = 64
_INNER = 256
_SLACK = 8.0
_TORCH = 50.0


@dataclass(frozen=True)
class TimedOp:
    op: str
    rows: tuple[int, ...] = _ROWS
    width: int = _WIDTH


def timed_ops(subject: Subject, rng: random.Random) -> Iterator[TimedOp]:
    for name in ("activation.silu_and_mul", "layernorm.rms_norm", "rotary.rotary_embedding"):
        yield TimedOp(name)
    yield TimedOp("layernorm.rms_norm", _HEADS, _HEAD)


@check(
    level=Level.KERNELS,
    requires=[fused_ops()],
    cases=timed_ops,
    seconds=300,
    fix="run over all rows in one launch or one compiled loop",
)
def op_time_grows_with_the_rows(subject: Subject, case: TimedOp) -> None:
    """4,096 rows take about 64 times as long as 64, or less, and neither 50 times as long as the same in torch; so do
    16,384 short rows of a norm, one for each head of each token. Rows that are rotated take as long with a table of
    131,072 positions as with one of 256."""
    forward = forward_of(subject, case.op)
    dtype = getattr(torch, compute_dtypes(subject)[0])

    def random_of(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=subject.torch_rng()).to(dtype).to(subject.device)

    calls = {
        "activation.silu_and_mul": _silu_and_mul,
        "layernorm.rms_norm": _rms_norm,
        "rotary.rotary_embedding": _rotary_embedding,
    }

    def made(rows: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
        return calls[case.op](forward, random_of, rows, case.width)

    expect_growth(subject, case.rows, lambda rows: Work(made(rows)[0]), slack=_SLACK, what=case.op, of="rows")
    for rows in (case.rows[0], case.rows[-1]):
        ours, plain = made(rows)
        expect_ratio(
            subject,
            Work(ours),
            Work(plain),
            most=_TORCH,
            what=f"{case.op} of {rows} rows of {case.width}",
            beside="the same in a few operations of torch",
        )
    if case.op == "rotary.rotary_embedding":
        long, short = (
            _rotary_embedding(forward, random_of, case.rows[0], case.width, places)[0] for places in _PLACES
        )
        expect_ratio(
            subject,
            Work(long, new_memory=True),
            Work(short, new_memory=True),
            most=_SLACK,
            what=f"{case.op} of {case.rows[0]} rows with a table of {_PLACES[0]} positions",
            beside=f"with one of {_PLACES[1]}",
            fix="read of the table the rows of the positions that are asked for",
        )


_Random = Callable[..., torch.Tensor]
_Pair = tuple[Callable[[], Any], Callable[[], Any]]


def _silu_and_mul(forward: Any, random_of: _Random, rows: int, width: int) -> _Pair:
    x = random_of(rows, 2 * width)
    op = an_op()

    def plain() -> torch.Tensor:
        gate, up = x.float().chunk(2, dim=-1)
        return (gate * torch.sigmoid(gate) * up).to(x.dtype)

    return lambda: forward(op, x), plain


def _rms_norm(forward: Any, random_of: _Random, rows: int, width: int) -> _Pair:
    x, weight = random_of(rows, width), random_of(width)
    op = norm_op(weight, 1e-5)

    def plain() -> torch.Tensor:
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * weight

    return lambda: forward(op, x), plain


def _rotary_embedding(forward: Any, random_of: _Random, rows: int, width: int, places: int = 256) -> _Pair:
    query, key = random_of(rows, width), random_of(rows, width // 4)
    cache = random_of(places, _HEAD)
    positions = (torch.arange(rows) % 256).to(query.device)
    op = an_op(
        cos_sin_cache=cache,
        head_size=_HEAD,
        rotary_dim=_HEAD,
        is_neox_style=True,
        max_position_embeddings=places,
        dtype=query.dtype,
    )

    def plain() -> list[torch.Tensor]:
        cos, sin = (half[:, None] for half in cache[positions].float().chunk(2, dim=-1))
        turned = []
        for x in (query, key):
            first, second = x.float().view(rows, -1, _HEAD).chunk(2, dim=-1)
            both = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
            turned.append(both.to(x.dtype).view(rows, -1))
        return turned

    return lambda: forward(op, positions, query, key), plain


@check(
    level=Level.KERNELS,
    requires=[fused_ops()],
    seconds=300,
    fix="compute the experts that were chosen for a token, and no others; group the tokens of an expert in one product",
)
def experts_time_is_that_of_the_chosen(subject: Subject) -> None:
    """Two experts for each of four tokens take no more than three times as long when there are 64 to choose from as
    when there are 8, and 128 tokens no more than 256 times as long as four."""
    forward = forward_of(subject, "moe.experts")
    dtype, generator = getattr(torch, compute_dtypes(subject)[0]), subject.torch_rng()

    def mixture(experts: int, tokens: int) -> Work:
        def random_of(*shape: int) -> torch.Tensor:
            return torch.randn(shape, generator=generator).to(dtype).to(subject.device)

        layer = SimpleNamespace(
            num_experts=experts,
            w13_weight=random_of(experts, 2 * _INNER, _INNER) * 0.1,
            w2_weight=random_of(experts, _INNER, _INNER) * 0.1,
        )
        ids = (torch.arange(2 * tokens) % 8).reshape(tokens, 2).to(torch.int32).to(subject.device)
        weights = torch.full((tokens, 2), 0.5, device=subject.device)
        x, op, config = random_of(tokens, _INNER), an_op(with_bias=False), experts_config()
        if forward(op, layer, x, weights, ids, config) is NotImplemented:
            raise NotApplicable("the op leaves plain SwiGLU experts to the host")
        return Work(lambda: forward(op, layer, x, weights, ids, config))

    few = mixture(8, 4)
    expect_ratio(
        subject,
        mixture(64, 4),
        few,
        most=3,
        what="moe.experts of 4 tokens and 64 experts",
        beside="with 8 experts",
    )
    expect_ratio(
        subject, mixture(8, 128), few, most=32 * _SLACK, what="moe.experts of 128 tokens", beside="of four"
    )
