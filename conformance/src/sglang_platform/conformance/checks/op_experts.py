"""Level 4: the experts of a mixture against float64."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import torch

from sglang_platform.conformance.check import NotApplicable, check, expect
from sglang_platform.conformance.fixtures.attention_cases import compute_dtypes
from sglang_platform.conformance.fixtures.op_calls import (
    an_op,
    experts_config,
    forward_of,
    judge,
    only_lent,
)
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.oracles import ops as oracle
from sglang_platform.conformance.oracles.attention import Expected, worst_element
from sglang_platform.conformance.requirement import fused_ops
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_MOST_WEIGHTS = 1 << 24


@dataclass(frozen=True)
class Experts:
    """`elsewhere`: some of the experts chosen are another rank's, which the host writes as -1. `on_input`: the router's
    weights belong on the rows that come. `sliced`: the choice is the first columns of a wider one, behind which the
    host has a shared expert."""

    tokens: int
    experts: int
    topk: int
    hidden: int
    inner: int
    dtype: str
    elsewhere: bool = False
    on_input: bool = False
    sliced: bool = False


def experts(subject: Subject, rng: random.Random) -> Iterator[Experts]:
    dtypes = compute_dtypes(subject)
    for at, (tokens, count, topk, hidden, inner) in enumerate(
        (
            (1, 2, 1, 16, 16), (3, 4, 2, 32, 16), (17, 8, 3, 64, 48), (5, 5, 5, 32, 64),
            (0, 4, 2, 32, 16), (130, 16, 4, 64, 32), (4, 128, 8, 64, 48), (40, 1, 1, 32, 16),
            # A token alone; experts past 128 and 256; a share of an expert that 64 does not divide; a prefill of unlike
            # loads, and one that goes to a single expert.
            (1, 64, 6, 64, 32), (8, 256, 8, 32, 16), (8, 384, 8, 16, 16), (3, 8, 2, 128, 176), (3, 4, 4, 90, 72),
            (700, 8, 1, 16, 16), (300, 2, 1, 16, 16), (9, 10, 4, 16, 16), (5, 60, 4, 32, 16),
            # More pairs of token and expert than 15 bits count; thorough: 16.
            (4100, 8, 8, 16, 16),
            # Rows past blocks of 256, and no whole ones.
            (5, 4, 2, 320, 16), (5, 4, 2, 16, 320), (5, 4, 2, 320, 320),
        )
    ):  # fmt: skip
        yield Experts(tokens, count, topk, hidden, inner, dtypes[at % len(dtypes)])
    yield Experts(6, 8, 2, 32, 32, dtypes[0], elsewhere=True)
    yield Experts(150, 4, 2, 32, 32, dtypes[0], elsewhere=True)
    yield Experts(6, 8, 1, 32, 32, dtypes[0], on_input=True)
    yield Experts(6, 8, 3, 32, 32, dtypes[0], sliced=True)
    if subject.thorough:
        yield Experts(8200, 16, 8, 16, 16, dtypes[-1])
        yield Experts(2, 8, 2, 4096, 1536, dtypes[-1])
    for at, model in enumerate(subject.models):
        if model.experts and model.experts_per_token:
            hidden, inner = model.hidden, model.expert_inner or model.inner
            # The number of experts is the model's; rows are halved until the weights fit beside their float64.
            while model.experts * hidden * inner > _MOST_WEIGHTS:
                hidden, inner = hidden // 2, max(16, inner // 2)
            yield Experts(5, model.experts, model.experts_per_token, hidden, inner, dtypes[at % len(dtypes)])


@check(
    level=Level.KERNELS,
    requires=[fused_ops()],
    cases=experts,
    founds="op moe.experts",
    fix="sum over the chosen experts of weight * w2 (silu(gate) * up), with (gate, up) = w13 x; gate rows come first;"
    " an expert of -1 adds nothing",
)
def moe_experts(subject: Subject, case: Experts) -> None:
    """Every token goes through the experts chosen for it, with their weights, and through those of this rank alone."""
    mixture = _Mixture(subject, case)
    got = mixture.answer(apply_router_weight_on_input=case.on_input)
    if got is NotImplemented:
        if case.elsewhere or case.on_input:
            return
        raise NotApplicable("the op leaves plain SwiGLU experts to the host")
    judge(
        got,
        mixture.expected(weight_on_input=case.on_input),
        "the sum of the experts",
        dtype=mixture.x.dtype,
        dense=True,
    )


@check(
    level=Level.KERNELS,
    requires=[fused_ops()],
    fix="gather each expert's rows by their numbers: a product with zeros and ones makes NaN of 0 times NaN",
)
def lost_tokens_leave_the_others_alone(subject: Subject) -> None:
    """A token of NaN, as padding of a graph may have, goes through its experts, and the tokens beside it come out as
    without it, of the same experts too."""
    mixture = _Mixture(subject, Experts(5, 4, 2, 32, 32, compute_dtypes(subject)[0]))
    expected = mixture.expected()
    mixture.x[1] = float("nan")
    got = mixture.answer()
    if got is NotImplemented:
        raise NotApplicable("the op leaves plain SwiGLU experts to the host")
    rows = torch.tensor([0, 2, 3, 4])
    others = Expected(expected.value[rows], expected.bound[rows])
    judge(got.cpu()[rows], others, "the sum of the experts beside a token of NaN", dtype=mixture.x.dtype)


@dataclass(frozen=True)
class Kind:
    """Experts that are no plain SwiGLU ones: what the configuration says, by name, whether they have biases, and
    whether some of those chosen are another rank's."""

    name: str
    says: tuple[tuple[str, Any], ...] = ()
    biases: bool = False
    elsewhere: bool = False


_OPTIONS: Mapping[str, Sequence[tuple[tuple[str, Any], ...]]] = {
    "activation": ((), (("activation", "gelu"),)),
    "gate": ((), (("is_gated", False),)),
    "clamp": (
        (),
        (("gemm1_alpha", 1.702), ("gemm1_clamp_limit", 7.0)),
        (("gemm1_alpha", 1.702), ("gemm1_clamp_limit", 0.5)),
    ),
    "on input": ((), (("apply_router_weight_on_input", True),)),
}
"""Options that a model sets together, as gpt-oss does biases, alpha and limit."""


def kinds(subject: Subject, rng: random.Random) -> Iterator[Kind]:
    """Each option alone, and then all of those that the oracle has a rule for with each other."""
    yield from _alone()
    for biases, elsewhere, *options in itertools.product((False, True), (False, True), *_OPTIONS.values()):
        says = tuple(itertools.chain.from_iterable(options))
        names = dict(says).keys()
        plain = not biases and not names - {"apply_router_weight_on_input"}
        # SGLang clamps gated silu alone.
        if not plain and not ("gemm1_alpha" in names and {"activation", "is_gated"} & names):
            words = [f"{name}={value}" for name, value in says] + ["biases"] * biases
            yield Kind(", ".join(words), says, biases, elsewhere)


def _alone() -> Iterator[Kind]:
    yield Kind("gelu", (("activation", "gelu"),))
    yield Kind("without a gate", (("is_gated", False),))
    yield Kind("biases", biases=True)
    yield Kind("not combined", (("no_combine", True),))
    yield Kind("a scaled and clamped gate", (("gemm1_alpha", 1.702), ("gemm1_clamp_limit", 7.0)))
    yield Kind("a clamped gate", (("swiglu_limit", 0.5),))
    yield Kind("another activation", (("activation", "relu2"),))


@check(
    level=Level.KERNELS,
    requires=[fused_ops()],
    cases=kinds,
    fix="answer NotImplemented for what the configuration asks and your kernel does not compute: activation, is_gated,"
    " no_combine, gemm1_alpha, gemm1_clamp_limit, swiglu_limit, op.with_bias",
)
def other_experts_are_computed_or_declined(subject: Subject, case: Kind) -> None:
    """Experts with another activation, without a gate, with biases, with limits, or whose results are wanted one by one
    are computed as asked, also where a model asks for several of these, or left to the host: never computed as plain
    SwiGLU experts."""
    says = dict(case.says)
    shape = Experts(5, 4, 2, 32, 16, compute_dtypes(subject)[0])
    shape = replace(shape, elsewhere=case.elsewhere, topk=1 if "apply_router_weight_on_input" in says else 2)
    mixture = _Mixture(subject, shape, gated=says.get("is_gated", True), biases=case.biases)
    try:
        got = mixture.answer(**says)
    except NotImplementedError:
        return
    if got is NotImplemented:
        return
    if "no_combine" in says:
        expect(
            isinstance(got, torch.Tensor) and list(got.shape) == [shape.tokens, shape.topk, shape.hidden],
            f"asked for the result of each expert, the op answers {list(getattr(got, 'shape', ()))}",
        )
        return
    if says.get("activation", "silu") in ("silu", "gelu") and "swiglu_limit" not in says:
        asked = {"activation": says.get("activation", "silu"), "clamped": None}
        asked["weight_on_input"] = says.get("apply_router_weight_on_input", False)
        if "gemm1_alpha" in says:
            asked["clamped"] = says["gemm1_alpha"], says["gemm1_clamp_limit"]
        expected = mixture.expected(**asked)
        if asked["clamped"] is not None and worst_element(got.cpu(), expected)[0] > 1:
            expected = mixture.expected(**asked, in_turn=True)  # as gpt-oss's weights are stored
        judge(got, expected, f"the sum of experts: {case.name}", dtype=mixture.x.dtype)
        return
    plain = mixture.expected()
    expect(
        got.shape != plain.value.shape or worst_element(got.cpu(), plain)[0] > 1,
        f"asked for {case.name} ({', '.join(f'{name}={value}' for name, value in case.says)}), the op answers what"
        " plain SwiGLU experts give",
    )


class _Mixture:
    """The tensors of one call."""

    def __init__(self, subject: Subject, case: Experts, *, gated: bool = True, biases: bool = False) -> None:
        dtype, device, generator = getattr(torch, case.dtype), subject.device, subject.torch_rng()

        def random_of(*shape: int) -> torch.Tensor:
            return torch.randn(shape, generator=generator).to(dtype).to(device)

        self.subject, self.gated = subject, gated
        self.x = random_of(case.tokens, case.hidden)
        self.layer = SimpleNamespace(
            num_experts=case.experts,
            w13_weight=random_of(case.experts, (2 if gated else 1) * case.inner, case.hidden) * 0.25,
            w2_weight=random_of(case.experts, case.hidden, case.inner) * 0.25,
        )
        self.biases = None
        if biases:
            rows = (2 if gated else 1) * case.inner
            self.biases = random_of(case.experts, rows), random_of(case.experts, case.hidden)
            self.layer.w13_weight_bias, self.layer.w2_weight_bias = self.biases
        chosen = [torch.randperm(case.experts, generator=generator)[: case.topk] for _ in range(case.tokens)]
        ids = torch.cat(chosen or [torch.empty(0)]).reshape(-1, case.topk).to(torch.int32)
        if case.experts > 128 and case.tokens:
            ids[-1] = torch.arange(case.experts - case.topk, case.experts)
        if case.elsewhere:
            ids[torch.rand(ids.shape, generator=generator) < 0.4] = -1
            ids[0], ids[1] = -1, ids[1].clamp(min=0)
        weights = torch.rand(case.tokens, case.topk, generator=generator) + 0.1
        if case.sliced:
            ids = torch.cat((ids, ids[:, :1]), dim=1)
            weights = torch.cat((weights, weights[:, :1]), dim=1)
        self.ids, self.weights = ids.to(device)[:, : case.topk], weights.to(device)[:, : case.topk]

    def answer(self, **config: Any) -> Any:
        forward = forward_of(self.subject, "moe.experts")
        with only_lent(  # x is what shared experts read
            x=self.x,
            topk_weights=self.weights,
            topk_ids=self.ids,
            w13=self.layer.w13_weight,
            w2=self.layer.w2_weight,
        ):
            op = an_op(with_bias=self.biases is not None)
            return forward(op, self.layer, self.x, self.weights, self.ids, experts_config(**config))

    def expected(self, **asked: Any) -> oracle.Expected:
        return oracle.moe_experts(
            self.x.cpu(),
            self.layer.w13_weight.cpu(),
            self.layer.w2_weight.cpu(),
            self.weights.cpu(),
            self.ids.cpu(),
            gated=self.gated,
            **asked,
            biases=None if self.biases is None else (self.biases[0].cpu(), self.biases[1].cpu()),
        )
