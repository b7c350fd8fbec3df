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
from sglang_platform.conformance.fixtures.op_calls import an_op, experts_config, forward_of, judge, norm_op
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.oracles import more_ops
from sglang_platform.conformance.oracles import ops as oracle
from sglang_platform.conformance.requirement import fused_ops
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_WIDTH, _HEAD = 64, 16
_TOKENS = (3, 17, 3, 3, 1, 64, 2)

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
    were written over in place, and what was answered before stays as it was while the model still reads it."""
    forward = forward_of(subject, case.name)
    generator, dtype = subject.torch_rng(), getattr(torch, compute_dtypes(subject)[0])

    def random_of(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(dtype).to(subject.device)

    layers = [_CALLS[case.name](forward, random_of, number) for number in range(2)]
    answers: list[tuple[str, torch.Tensor, torch.Tensor]] = []
    for at, tokens in enumerate(_TOKENS):
        called = layers[at % 2](tokens)
        if called is None:
            continue  # left to the host
        what = f"call {at + 1}, of {tokens} tokens, for layer {at % 2},"
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


def _norm(forward: Any, random_of: Callable[..., torch.Tensor], number: int) -> Any:
    op = norm_op(random_of(_WIDTH), 1e-5 * (1 + 9 * number))

    def call(tokens: int) -> _Answers | None:
        op.weight.data.add_(0.25)  # as an update of the weights does
        x = random_of(tokens, _WIDTH)
        got = forward(op, x.clone())
        weight = op.weight.detach().cpu()
        expected = oracle.rms_norm(x.cpu(), weight, op.variance_epsilon)
        return None if got is NotImplemented else ([got], [expected])

    return call


def _layer_norm(forward: Any, random_of: Callable[..., torch.Tensor], number: int) -> Any:
    weight, bias = random_of(_WIDTH).float(), random_of(_WIDTH).float()
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
        x = random_of(tokens, _WIDTH)
        got = forward(op, x.clone())
        expected = more_ops.layer_norm(x.cpu(), weight.cpu(), bias.cpu(), op.variance_epsilon)
        return None if got is NotImplemented else ([got], [expected])

    return call


def _activation(forward: Any, random_of: Callable[..., torch.Tensor], number: int) -> Any:
    op = an_op()

    def call(tokens: int) -> _Answers | None:
        x = random_of(tokens, 2 * _WIDTH)
        got = forward(op, x.clone())
        return None if got is NotImplemented else ([got], [oracle.silu_and_mul(x.cpu())])

    return call


def _rotary(forward: Any, random_of: Callable[..., torch.Tensor], number: int) -> Any:
    turns = torch.arange(128)[:, None] * (100.0 * (1 + number)) ** (-torch.arange(_HEAD // 2) * 2 / _HEAD)
    cache = torch.cat((turns.cos(), turns.sin()), dim=-1).to(random_of(1))
    # The first layer is in the neox style, the second in the other: a model may have both.
    op = an_op(
        cos_sin_cache=cache,
        head_size=_HEAD,
        rotary_dim=_HEAD,
        is_neox_style=number == 0,
        max_position_embeddings=128,
        dtype=cache.dtype,
    )

    def call(tokens: int) -> _Answers | None:
        query, key = random_of(tokens, 4 * _HEAD), random_of(tokens, 2 * _HEAD)
        positions = (torch.arange(tokens) * 5 + 1 + number) % 128
        got = forward(op, positions.to(query.device), query.clone(), key.clone())
        if got is NotImplemented:
            return None
        expected = [
            oracle.rotary_embedding(positions, x.cpu(), _HEAD, cache.cpu(), number == 0) for x in (query, key)
        ]
        return list(got), expected

    return call


def _experts(forward: Any, random_of: Callable[..., torch.Tensor], number: int) -> Any:
    count, inner = 4 + 2 * number, 16
    layer = SimpleNamespace(
        num_experts=count,
        w13_weight=random_of(count, 2 * inner, _WIDTH) * 0.25,
        w2_weight=random_of(count, _WIDTH, inner) * 0.25,
    )

    def call(tokens: int) -> _Answers | None:
        layer.w13_weight.data.mul_(-1)
        layer.w2_weight.data.mul_(1.25)
        x, weights = random_of(tokens, _WIDTH), random_of(tokens, 2).float().abs() + 0.1
        ids = (torch.arange(2 * tokens) * 3 + tokens).reshape(tokens, 2).remainder(count).to(torch.int32)
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
    "moe.experts": _experts,
}

_CHECK = {
    "layernorm.rms_norm": "kernels.rms_norm",
    "layernorm.layer_norm": "kernels.layer_norm",
    "activation.silu_and_mul": "kernels.silu_and_mul",
    "rotary.rotary_embedding": "kernels.rotary_embedding",
    "moe.experts": "kernels.moe_experts",
}
"""The check of each op by itself, whose fix says what it computes."""
