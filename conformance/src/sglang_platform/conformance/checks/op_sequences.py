"""Level 4: calls of one fused op after another: other rows, other sizes, other layers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch

from sglang_platform.conformance.check import CheckFailed, check, expect, registered
from sglang_platform.conformance.fixtures.attention_cases import compute_dtypes
from sglang_platform.conformance.fixtures.op_calls import (
    an_op,
    choice_config,
    experts_config,
    forward_of,
    judge,
    norm_op,
)
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.oracles import more_ops
from sglang_platform.conformance.oracles import ops as oracle
from sglang_platform.conformance.oracles.more_ops import axis_table
from sglang_platform.conformance.requirement import fused_ops
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_WIDTH, _HEAD = 64, 16
_SEQUENCE = ((0, 3), (0, 3), (1, 17), (1, 17), (0, 3), (1, 3), (0, 1), (1, 64), (0, 2), (1, 3))
"""Calls: of which layer, and of how many tokens."""

_Answers = tuple[list[torch.Tensor], list[oracle.Expected]]


@dataclass(frozen=True)
class Op:
    name: str


def ops(subject: Subject, rng: random.Random) -> Iterator[Op]:
    for name in _CALLS:
        yield Op(name)


@check(
    level=Level.KERNELS,
    requires=[fused_ops()],
    cases=ops,
    fix="answer in a new tensor, and keep nothing by shape or from the first call: neither weights, nor tables, nor"
    " scratch space of another size",
)
def op_calls_follow_each_other(subject: Subject, case: Op) -> None:
    """Calls of one op for layers of unlike weights and for batches of unlike sizes are each right, also after weights
    were written over in place and where only the middle of a batch is another than in the call before, and what was
    answered before stays as it was while the model still reads it."""
    forward = forward_of(subject, case.name)
    generator, dtype = subject.torch_rng(), getattr(torch, compute_dtypes(subject)[0])

    def random_of(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(dtype).to(subject.device)

    layers = [_CALLS[case.name](forward, _Drawn(random_of), number) for number in range(2)]
    answers: list[tuple[str, torch.Tensor, torch.Tensor]] = []
    for at, (layer, tokens) in enumerate(_SEQUENCE):
        called = layers[layer](tokens)
        if called is None:
            continue  # left to the host
        what = f"call {at + 1}, of {tokens} tokens, for layer {layer},"
        for got, expected in zip(*called, strict=True):
            try:
                judge(got, expected, f"{what} of {case.name}")
            except CheckFailed as failed:
                if answers:
                    raise
                # No call came before it: what the op computes is wrong, as its own check says.
                raise CheckFailed(failed.what, fix=registered()[_CHECK[case.name]].fix) from None
            answers.append((what, got, got.cpu().clone()))
        subject.synchronize()
        for before, got, kept in answers:
            expect(
                torch.equal(got.cpu(), kept),
                f"what {before} answered is changed by {what} while the model still reads it",
            )


class _Drawn:
    """What the calls of one layer are made of: `random_of` anything, and rows of which the first and the last are those
    of the call before that had as many."""

    def __init__(self, random_of: Callable[..., torch.Tensor]) -> None:
        self.random_of = random_of
        self._before: dict[tuple[str, tuple[int, ...]], torch.Tensor] = {}

    def rows(self, tokens: int, width: int, what: str = "x") -> torch.Tensor:
        return self.kept(what, self.random_of(tokens, width))

    def kept(self, what: str, rows: torch.Tensor) -> torch.Tensor:
        """`rows` with the ends of those of this name and shape before."""
        before = self._before.setdefault((what, tuple(rows.shape)), rows)
        rows[0], rows[-1] = before[0], before[-1]
        return rows.clone()

    def positions(self, *shape: int) -> torch.Tensor:
        """Of the tokens, on the CPU, up to 128; `shape` ends in their number."""
        drawn = self.random_of(*shape).float().cpu().mul(1000).abs().long() % 128
        return self.kept("positions", drawn.movedim(-1, 0)).movedim(0, -1)


def _norm(forward: Any, drawn: _Drawn, number: int) -> Any:
    op = norm_op(drawn.random_of(_WIDTH), 1e-5 * (1 + 9 * number))

    def call(tokens: int) -> _Answers | None:
        op.weight.data.add_(0.25)  # as an update of the weights does
        x = drawn.rows(tokens, _WIDTH)
        got = forward(op, x.clone())
        weight = op.weight.detach().cpu()
        expected = oracle.rms_norm(x.cpu(), weight, op.variance_epsilon)
        return None if got is NotImplemented else ([got], [expected])

    return call


def _layer_norm(forward: Any, drawn: _Drawn, number: int) -> Any:
    weight, bias = drawn.random_of(_WIDTH).float(), drawn.random_of(_WIDTH).float()
    op = an_op(
        hidden_size=_WIDTH,
        variance_epsilon=1e-5 * (1 + 9 * number),
        elementwise_affine=True,
        use_bias=True,
        dtype=torch.float32,
        weight=weight,
        bias=bias,
    )

    def call(tokens: int) -> _Answers | None:
        weight.add_(0.25)
        bias.sub_(0.5)
        x = drawn.rows(tokens, _WIDTH)
        got = forward(op, x.clone())
        expected = more_ops.layer_norm(x.cpu(), weight.cpu(), bias.cpu(), op.variance_epsilon)
        return None if got is NotImplemented else ([got], [expected])

    return call


def _activation(forward: Any, drawn: _Drawn, number: int) -> Any:
    op = an_op()

    def call(tokens: int) -> _Answers | None:
        x = drawn.rows(tokens, 2 * _WIDTH)
        got = forward(op, x.clone())
        return None if got is NotImplemented else ([got], [oracle.silu_and_mul(x.cpu())])

    return call


def _topk(forward: Any, drawn: _Drawn, number: int) -> Any:
    config = choice_config(top_k=2 + number, renormalize=number == 0)

    def call(tokens: int) -> _Answers | None:
        order = drawn.random_of(tokens, 8).float().cpu().argsort(dim=1)
        logits = drawn.kept("x", torch.linspace(-2.0, 2.0, 8)[order]).to(drawn.random_of(1).device)
        got = forward(an_op(topk_config=config), logits.new_zeros(tokens, 16), logits, config)
        if got is NotImplemented:
            return None
        wanted = more_ops.choice_of_experts(logits.cpu(), config.top_k, renormalize=config.renormalize)
        weights, ids = (one.cpu() for one in got)
        given = torch.zeros_like(wanted).scatter(1, ids.long(), weights.double())
        return [given], [oracle.Expected(wanted, torch.full_like(wanted, 1e-5))]

    return call


def _rotary(forward: Any, drawn: _Drawn, number: int) -> Any:
    cache = _turns(number).to(drawn.random_of(1))
    # The first layer is in the neox style, the second in the other: a model may have both.
    op = _rotating(cache, is_neox_style=number == 0)

    def call(tokens: int) -> _Answers | None:
        query, key = drawn.rows(tokens, 4 * _HEAD), drawn.rows(tokens, 2 * _HEAD)
        positions = drawn.positions(tokens)
        got = forward(op, positions.to(query.device), query.clone(), key.clone())
        if got is NotImplemented:
            return None
        expected = [
            oracle.rotary_embedding(positions, x.cpu(), _HEAD, cache.cpu(), number == 0) for x in (query, key)
        ]
        return list(got), expected

    return call


def _three_axes(forward: Any, drawn: _Drawn, number: int) -> Any:
    cache, section = _turns(number).to(drawn.random_of(1)), (2, 3, 3)
    op = _rotating(
        cache,
        is_neox_style=True,
        mrope_section=list(section),
        mrope_interleaved=number == 1,
        mrope_interleaved_glm=False,
    )

    def call(tokens: int) -> _Answers | None:
        query, key = drawn.rows(tokens, 4 * _HEAD), drawn.rows(tokens, 2 * _HEAD)
        positions = drawn.positions(3, tokens)
        got = forward(op, positions.to(query.device), query.clone(), key.clone())
        if got is NotImplemented:
            return None
        table, order = axis_table(positions, cache.cpu(), section, number == 1), torch.arange(tokens)
        return list(got), [oracle.rotary_embedding(order, x.cpu(), _HEAD, table, True) for x in (query, key)]

    return call


def _turns(number: int) -> torch.Tensor:
    """Cosines and sines of 128 positions, [128, head]."""
    turns = torch.arange(128)[:, None] * (100.0 * (1 + number)) ** (-torch.arange(_HEAD // 2) * 2 / _HEAD)
    return torch.cat((turns.cos(), turns.sin()), dim=-1)


def _rotating(cache: torch.Tensor, **fields: Any) -> Any:
    sizes = {"head_size": _HEAD, "rotary_dim": _HEAD, "max_position_embeddings": 128}
    return an_op(cos_sin_cache=cache, dtype=cache.dtype, **sizes, **fields)


def _experts(forward: Any, drawn: _Drawn, number: int) -> Any:
    count, inner = 4 + 2 * number, 16
    layer = SimpleNamespace(
        num_experts=count,
        w13_weight=drawn.random_of(count, 2 * inner, _WIDTH) * 0.25,
        w2_weight=drawn.random_of(count, _WIDTH, inner) * 0.25,
    )

    def call(tokens: int) -> _Answers | None:
        layer.w13_weight.data.mul_(-1)
        layer.w2_weight.data.mul_(1.25)
        x, weights = drawn.rows(tokens, _WIDTH), drawn.rows(tokens, 2, "weights").float().abs() + 0.1
        order = drawn.kept("ids", drawn.random_of(tokens, count).float().cpu())
        ids = order.argsort(dim=1)[:, :2].to(torch.int32)
        got = forward(an_op(with_bias=False), layer, x.clone(), weights, ids.to(x.device), experts_config())
        expected = oracle.moe_experts(
            x.cpu(), layer.w13_weight.cpu(), layer.w2_weight.cpu(), weights.cpu(), ids
        )
        return None if got is NotImplemented else ([got], [expected])

    return call


_CALLS = {
    "layernorm.rms_norm": _norm,
    "layernorm.layer_norm": _layer_norm,
    "activation.silu_and_mul": _activation,
    "rotary.rotary_embedding": _rotary,
    "rotary.mrope": _three_axes,
    "moe.topk": _topk,
    "moe.experts": _experts,
}

_CHECK = {
    "layernorm.rms_norm": "kernels.rms_norm",
    "layernorm.layer_norm": "kernels.layer_norm",
    "activation.silu_and_mul": "kernels.silu_and_mul",
    "rotary.rotary_embedding": "kernels.rotary_embedding",
    "rotary.mrope": "kernels.rotary_embedding_of_three_axes",
    "moe.topk": "kernels.expert_choice",
    "moe.experts": "kernels.moe_experts",
}
"""The check of each op by itself, whose fix says what it computes."""
