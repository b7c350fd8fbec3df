"""Level 4: the choice of experts against float64."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from sglang_platform.conformance.check import NotApplicable, check, expect
from sglang_platform.conformance.fixtures.attention_cases import compute_dtypes
from sglang_platform.conformance.fixtures.op_calls import an_op, choice_config, forward_of, only_lent
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.oracles import more_ops as oracle
from sglang_platform.conformance.requirement import fused_ops
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_CLOSE = 1e-5
"""Of a weight, which is at most 1: softmax in float32 over some hundred experts."""


_NEAR = 1e-4
"""Between two logits: a softmax in float32 holds them apart, also over some hundred experts."""


@dataclass(frozen=True)
class ExpertChoice:
    tokens: int
    experts: int
    top_k: int
    renormalize: bool
    dtype: str
    far: float = 0.0
    """What is added to all logits, which leaves the softmax as it is."""


def choices(subject: Subject, rng: random.Random) -> Iterator[ExpertChoice]:
    dtypes, at = [*compute_dtypes(subject), "float32"], 0
    for tokens, experts, top_k in (
        (1, 8, 2), (17, 128, 8), (3, 4, 1), (0, 8, 2), (130, 64, 6), (5, 60, 4), (4, 384, 8), (2, 6, 6), (300, 16, 2),
        (3, 512, 10), (2, 64, 12), (5, 256, 33),
        (5, 384, 1),
    ):  # fmt: skip
        for renormalize in (True, False):
            dtype = (
                dtypes[at % len(dtypes)] if experts <= 128 else "float32"
            )  # bfloat16 holds fewer numbers apart
            yield ExpertChoice(tokens, experts, top_k, renormalize, dtype)
            at += 1
    for far in (100.0, -120.0):  # exp() of these is no number of float32, or 0
        yield ExpertChoice(9, 16, 4, far > 0, "float32", far)


@check(
    level=Level.KERNELS,
    requires=[fused_ops()],
    cases=choices,
    founds="op moe.topk",
    fix="softmax over all experts in float32, less their largest, then the top_k largest, divided by their sum where"
    " config.renormalize",
)
def expert_choice(subject: Subject, case: ExpertChoice) -> None:
    """Each token gets the experts with the largest scores, every one once, with the weight of the softmax over all, and
    with weights that sum to one where the model asks for that; also where all scores are far from zero, where the two
    largest are the same, where the last that is chosen is above the next by a ten-thousandth of a logit, and where the
    logits are a part of a wider product."""
    forward = forward_of(subject, "moe.topk")
    apart = _logits(subject, case.tokens, case.experts, case.dtype) + case.far
    asked = [(apart, "")]
    if case.top_k > 1:
        alike = apart.cpu().clone()
        best = alike.topk(2).indices
        alike.scatter_(1, best[:, 1:], alike.gather(1, best[:, :1]))
        asked.append((alike.to(subject.device), ", whose two largest scores are the same,"))
    if case.dtype == "float32" and case.experts > case.top_k:
        near = apart.cpu().clone()
        best = near.topk(case.top_k + 1).indices
        near.scatter_(1, best[:, -1:], near.gather(1, best[:, -2:-1]) - _NEAR)
        asked.append((near.to(subject.device), ", whose last expert is just above the next,"))
    if case.top_k == 1:
        ahead = apart.clone()
        ahead[:, -1] = apart.max() + 100
        asked.append((ahead, ", whose last score is far above the others,"))
    wider = torch.cat((apart, apart.flip(1), apart), dim=1)
    asked.append((wider[:, : case.experts], ", of logits that are a part of a wider product,"))
    config = choice_config(top_k=case.top_k, renormalize=case.renormalize)
    for logits, how in asked:
        hidden = torch.zeros(case.tokens, 16, dtype=logits.dtype, device=subject.device)
        with only_lent(router_logits=logits, hidden_states=hidden):
            got = forward(an_op(topk_config=config), hidden, logits, config)
        if got is not NotImplemented:
            wanted = oracle.choice_of_experts(logits.cpu(), case.top_k, renormalize=case.renormalize)
            _judge(got, wanted, case.top_k, how)


@check(
    level=Level.KERNELS,
    requires=[fused_ops()],
    fix="let no comparison with NaN leave the number of an expert that is not there: start each maximum from expert 0",
)
def lost_rows_choose_experts_that_are_there(subject: Subject) -> None:
    """A row of NaN, as padding of a graph may have, chooses experts that the model has, or none (-1): what comes after
    reads their weights; the rows beside it get their own."""
    forward = forward_of(subject, "moe.topk")
    logits = _logits(subject, 5, 10, "float32")
    wanted = oracle.choice_of_experts(logits.cpu(), 3, renormalize=True)
    given = logits.clone()
    given[1], given[3, ::2] = float("nan"), float("nan")
    config = choice_config(top_k=3, renormalize=True)
    hidden = torch.zeros(5, 16, device=subject.device)
    got = forward(an_op(topk_config=config), hidden, given, config)
    if got is NotImplemented:
        raise NotApplicable("the op leaves a plain choice of experts to the host")
    ids = got[1].cpu()
    expect(
        bool(((ids >= -1) & (ids < 10)).all()),
        f"rows of NaN choose the experts {ids[[1, 3]].tolist()} of 10",
    )
    rows = torch.tensor([0, 2, 4])
    _judge(tuple(one.cpu()[rows] for one in got), wanted[rows], 3, " beside rows of NaN")


@dataclass(frozen=True)
class OtherChoice:
    """How experts are chosen where it is not by softmax alone."""

    name: str


def others(subject: Subject, rng: random.Random) -> Iterator[OtherChoice]:
    for name in ("sigmoid", "groups", "a bias"):
        yield OtherChoice(name)


@check(
    level=Level.KERNELS,
    requires=[fused_ops()],
    cases=others,
    fix="answer NotImplemented for what the configuration asks and your kernel does not compute: scoring_func,"
    " use_grouped_topk, correction_bias",
)
def other_choices_are_computed_or_declined(subject: Subject, case: OtherChoice) -> None:
    """A choice by sigmoid, within groups of experts, or with a bias that counts in the choice and not in the weight, is
    computed as asked or left to the host: never as softmax alone."""
    forward = forward_of(subject, "moe.topk")
    logits = _logits(subject, 9, 16, "float32")
    bias = torch.linspace(0.9, -0.9, 16)[torch.randperm(16, generator=subject.torch_rng())]
    config = choice_config(top_k=4, renormalize=True)
    asked: dict[str, Any] = {}
    if case.name == "sigmoid":
        config.scoring_func, asked["scores"] = "sigmoid", "sigmoid"
    elif case.name == "groups":
        config.use_grouped_topk, config.num_expert_group, config.topk_group = True, 4, 2
        asked["groups"] = (4, 2)
    else:
        config.correction_bias, asked["bias"] = bias.to(subject.device), bias
    hidden = torch.zeros(9, 16, device=subject.device)
    got = forward(an_op(topk_config=config), hidden, logits, config)
    if got is not NotImplemented:
        wanted = oracle.choice_of_experts(logits.cpu(), 4, renormalize=True, **asked)
        _judge(got, wanted, 4, f" by {case.name}")


def _judge(got: Any, wanted: torch.Tensor, top_k: int, how: str = "") -> None:
    expect(
        isinstance(got, tuple) and len(got) == 2, f"the answer is {type(got).__name__}, not (weights, ids)"
    )
    weights, ids = (one.cpu() for one in got)
    shape = [wanted.shape[0], top_k]
    expect(list(weights.shape) == list(ids.shape) == shape, f"weights are {list(weights.shape)}, not {shape}")
    expect(weights.dtype == torch.float32, f"the weights come as {weights.dtype}; the host reads float32")
    expect(ids.dtype == torch.int32, f"the ids come as {ids.dtype}; the host's kernels read int32")
    given = torch.zeros_like(wanted)
    for token in range(shape[0]):
        chosen = ids[token].tolist()
        right = set(wanted[token].nonzero().flatten().tolist())
        expect(
            set(chosen) == right and len(set(chosen)) == len(chosen),
            f"token {token}{how} gets the experts {sorted(chosen)}; those of the largest scores are {sorted(right)}",
        )
        given[token, ids[token].long()] = weights[token].double()
    off = torch.where(given.isfinite(), (given - wanted).abs(), torch.inf)
    if off.numel() and float(off.max()) > _CLOSE:
        token, expert = (int(one) for one in divmod(int(off.argmax()), wanted.shape[1]))
        expect(
            False,
            f"the weight of expert {expert} for token {token}{how} is {float(given[token, expert]):.6g}, and must be"
            f" {float(wanted[token, expert]):.6g}",
        )


def _logits(subject: Subject, tokens: int, experts: int, dtype: str) -> torch.Tensor:
    """Scores apart enough that no rounding changes the choice: a shuffled scale for every token."""
    generator = subject.torch_rng()
    scale = torch.linspace(-2.0, 2.0, experts)
    rows = [scale[torch.randperm(experts, generator=generator)] for _ in range(tokens)]
    return torch.stack(rows or [scale])[:tokens].to(getattr(torch, dtype)).to(subject.device)
