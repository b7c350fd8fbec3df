"""Level 4: how long fused ops, masks of grammars and layers with a state take beside torch, and how that grows."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from sglang_platform.conformance.check import NotApplicable, Row, check
from sglang_platform.conformance.checks.state_kernels import STATELESS, calls_of, kernels_brought
from sglang_platform.conformance.fixtures.attention_cases import compute_dtypes
from sglang_platform.conformance.fixtures.op_calls import forward_of
from sglang_platform.conformance.fixtures.op_spec import Drawn, OpCall, OpCase
from sglang_platform.conformance.fixtures.op_specs import SPECS
from sglang_platform.conformance.fixtures.timing import (
    Work,
    expect_growth,
    expect_like_torch,
    expect_ratio,
)
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import fused_ops
from sglang_platform.conformance.subject import Subject

_ROWS = (64, 512, 4096)
_HEADS = (64, 1024, 16384)
"""As the norms of queries and keys have them: a row for each head of each token."""

_PLACES = (131072, 256)
_HEAD = 64
_REQUESTS = 4
_STATES = 16 << 20
"""Bytes of a pool of states."""

_VOCABULARY = 131_072


@dataclass(frozen=True)
class TimedOp:
    op: str
    rows: tuple[int, ...] = _ROWS
    width: int = 512


def timed_ops(subject: Subject, rng: random.Random) -> Iterator[TimedOp]:
    registered = {entry.op for entry in subject.fused_ops()}
    cases = (*map(TimedOp, _IN_TORCH), TimedOp("layernorm.rms_norm", _HEADS, _HEAD))
    yield from (case for case in cases if case.op in registered)


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
    layer = SPECS[case.op].layers(compute_dtypes(subject)[0])[0]
    turned = case.op == "rotary.rotary_embedding"
    if turned:
        layer = replace(
            layer, heads=(case.width // _HEAD, 2), head_size=_HEAD, rotary_dim=_HEAD, positions=_PLACES[1]
        )
    else:
        layer = replace(layer, width=case.width)

    def made(rows: int) -> Work:
        return _work(subject, replace(layer, tokens=rows))[0]

    expect_growth(subject, case.rows, made, what=case.op, of="rows")
    for rows in (case.rows[0], case.rows[-1]):
        ours, call = _work(subject, replace(layer, tokens=rows))
        plain = partial(_IN_TORCH[case.op], call.op, *call.inputs.values())
        expect_like_torch(subject, ours, plain, f"{case.op} of {rows} rows of {case.width}")
    if turned:
        long, short = (_work(subject, replace(layer, tokens=_ROWS[0], positions=one))[0] for one in _PLACES)
        expect_ratio(
            subject,
            replace(long, new_memory=True),
            replace(short, new_memory=True),
            what=f"{case.op} of {_ROWS[0]} rows with a table of {_PLACES[0]} positions",
            beside=f"with one of {_PLACES[1]}",
            fix="read of the table the rows of the positions that are asked for",
        )


def _work(subject: Subject, case: OpCase) -> tuple[Work, OpCall]:
    """A call of the op, over and over."""
    forward, spec, drawn = forward_of(subject, case.op), case.spec, Drawn(subject, case.dtype)
    call = OpCall(spec.op(drawn, case), spec.inputs(drawn, case))
    return Work(lambda: spec.call(forward, call)), call


def _silu_and_mul(op: Any, x: torch.Tensor) -> torch.Tensor:
    gate, up = x.float().chunk(2, dim=-1)
    return (gate * torch.sigmoid(gate) * up).to(x.dtype)


def _rms_norm(op: Any, x: torch.Tensor) -> torch.Tensor:
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * op.weight


def _rotary_embedding(op: Any, positions: torch.Tensor, *rows: torch.Tensor) -> list[torch.Tensor]:
    cos, sin = (half[:, None] for half in op.cos_sin_cache[positions].float().chunk(2, dim=-1))
    turned = []
    for x in rows:
        first, second = x.float().view(len(x), -1, _HEAD).chunk(2, dim=-1)
        both = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
        turned.append(both.to(x.dtype).view(len(x), -1))
    return turned


_IN_TORCH: dict[str, Callable[..., Any]] = {
    "activation.silu_and_mul": _silu_and_mul,
    "layernorm.rms_norm": _rms_norm,
    "rotary.rotary_embedding": _rotary_embedding,
}


@check(
    level=Level.KERNELS,
    requires=[fused_ops()],
    seconds=300,
    fix="compute the experts that were chosen for a token, and no others; group the tokens of an expert in one product",
)
def experts_time_is_that_of_the_chosen(subject: Subject) -> None:
    """Two experts for each of four tokens take no more than three times as long when there are 64 to choose from as
    when there are 8, and 128 tokens no more than 256 times as long as four."""
    spec = SPECS["moe.experts"]
    layer = replace(spec.layers(compute_dtypes(subject)[0])[0], hidden=256, inner=256)

    def mixture(experts: int, tokens: int) -> Work:
        work, call = _work(subject, replace(layer, experts=experts, tokens=tokens))
        call.inputs["topk_ids"] = (
            (torch.arange(2 * tokens) % 8).reshape(tokens, 2).to(torch.int32).to(subject.device)
        )
        if work.run() is NotImplemented:
            raise NotApplicable("the op leaves plain SwiGLU experts to the host")
        return work

    few, many, what = mixture(8, 4), mixture(64, 4), "moe.experts of 4 tokens and 64 experts"
    expect_ratio(subject, many, few, most=3, what=what, beside="with 8 experts")
    expect_growth(subject, (4, 128), partial(mixture, 8), what="moe.experts", of="tokens")


@check(
    level=Level.KERNELS,
    seconds=120,
    fix="mask all tokens of all requests in one kernel, or in a few operations over whole rows",
)
def token_masks_take_one_pass(subject: Subject) -> None:
    """A grammar's mask over 131,072 tokens takes no more than 25 times as long as in a few operations of torch."""
    function = getattr(subject.platform, "get_token_bitmask_fn", lambda: None)()
    if function is None:
        raise NotApplicable("get_token_bitmask_fn() answers None: core's own is used")
    logits = torch.zeros(_REQUESTS, _VOCABULARY, device=subject.device)
    allowed = torch.full((_REQUESTS, _VOCABULARY // 32), -1, dtype=torch.int32, device=subject.device)
    bits = torch.arange(32, dtype=torch.int32, device=subject.device)

    def plain() -> torch.Tensor:
        forbidden = ((allowed[:, :, None] >> bits) & 1).flatten(1) == 0
        return logits.masked_fill_(forbidden, float("-inf"))

    what = f"a mask over {_VOCABULARY} tokens for {_REQUESTS} requests"
    expect_like_torch(subject, Work(partial(function, logits, allowed)), plain, what, most=25.0)


def pooled_decodes(subject: Subject, rng: random.Random) -> Iterator[Row]:
    yield from (Row(kernel) for kernel in kernels_brought(subject) if kernel not in STATELESS)


@check(
    level=Level.KERNELS,
    cases=pooled_decodes,
    seconds=300,
    fix="read and write the states of the step's requests alone, by their slots; no copy is made of the pool",
)
def state_decodes_read_their_own_states(subject: Subject, case: Row) -> None:
    """A decode of four requests takes as long beside 16 MiB of states as beside eight: it reads and writes its own."""
    many, few = (
        Work(calls_of(subject, case.row, "decode", least), new_memory=True) for least in (_STATES, 0)
    )
    what = f"a decode of four requests by {case.row}, beside {_STATES >> 20} MiB of states,"
    expect_ratio(subject, many, few, what=what, beside="beside eight")
