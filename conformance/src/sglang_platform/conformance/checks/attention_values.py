"""Level 4: attention over the ranges of numbers that models have: scores far from zero, large caps and sinks, long
8-bit caches."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch

from sglang_platform.conformance.check import check
from sglang_platform.conformance.fixtures.attention_case import AttentionCase
from sglang_platform.conformance.fixtures.attention_cases import compute_dtypes, edge_cases
from sglang_platform.conformance.fixtures.attention_judge import judge, run_step
from sglang_platform.conformance.fixtures.attention_sizes import one_of_each
from sglang_platform.conformance.fixtures.attention_step import AttentionStep
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.oracles.fp8 import FP8
from sglang_platform.conformance.requirement import attention_backend, attention_feature, kv_kind, kv_pool
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_SERVED = (attention_backend(), kv_pool())
_SHIFT = 20.0
_LONG = ((2100, 1), (700, 1), (40, 1))
"""Decodes that kernels split into parts, beside a short one."""


def _far(sign: float) -> Callable[[AttentionStep], None]:
    """Queries and keys with a number in common, whose square is in every score."""

    def drawn(step: AttentionStep) -> None:
        for q in step.q:
            q[..., 0] = _SHIFT
        for k in step.k:
            k[..., 0] = sign * _SHIFT

    return drawn


@check(
    level=Level.KERNELS,
    requires=_SERVED,
    cases=edge_cases,
    fix="start the running maximum at minus infinity, and subtract it before the exponential",
)
def scores_far_from_zero(subject: Subject, case: AttentionCase) -> None:
    """Scores that all are far below zero, or far above it, weigh by their differences only."""
    for sign in (-1.0, 1.0):
        step = AttentionStep(subject, replace(case, dtype=compute_dtypes(subject)[0]), drawn=_far(sign))
        judge(step, step.got())


def flat(subject: Subject, rng: random.Random) -> Iterator[AttentionCase]:
    """In each type of 16 bits, contexts of more tokens than a float16 numerator holds of the values below."""
    names = [name for name in compute_dtypes(subject) if getattr(torch, name).itemsize == 2]
    for case in one_of_each(subject):
        case = replace(case, dims=(16, 8) if case.kind != "mha" else (16, 16))
        for name in names:
            yield replace(case, mode="decode", requests=((9000, 1), (40, 1)), dtype=name)
            yield replace(case, mode="extend", requests=((9000, 3),), dtype=name)


def _flat(step: AttentionStep) -> None:
    """All keys score alike, and values lie about ten: added up they are 90,000, and their mean is ten."""
    for q in step.q:
        q.zero_()
    for k in step.k:
        k.add_(10.0)
    for v in () if step.fixture.values_in_keys else step.v:
        v.add_(10.0)


@check(
    level=Level.KERNELS,
    requires=_SERVED,
    cases=flat,
    seconds=120,
    fix="add up weighted values in float32, or divide by the sum of weights as it grows: float16 ends at 65,504",
)
def flat_contexts_attention(subject: Subject, case: AttentionCase) -> None:
    """Over contexts of 9,000 tokens that score alike the answer is the mean of their values, which added up lie past
    the largest float16."""
    step = AttentionStep(subject, case, drawn=_flat)
    judge(step, step.got())


_SMALL_CAP = 0.5


def large_caps(subject: Subject, rng: random.Random) -> Iterator[AttentionCase]:
    for case in one_of_each(subject):
        if case.kind == "mha":
            for cap in (30.0, 50.0, 100.0):
                yield replace(case, mode="decode", requests=((40, 1), (3, 1))).using(logit_cap=cap)
                yield replace(case, mode="extend", requests=((21, 6), (0, 30))).using(logit_cap=cap)
            yield replace(case, mode="decode", requests=_LONG).using(logit_cap=30.0)
            for requests in (((40, 1), (3, 1)), ((21, 6), (0, 30))):
                mode = "decode" if requests[0][1] == 1 else "extend"
                yield replace(case, mode=mode, requests=requests).using(logit_cap=_SMALL_CAP)


@check(
    level=Level.KERNELS,
    requires=[attention_backend(), kv_kind("mha"), attention_feature("logit_cap")],
    cases=large_caps,
    fix="bend every score to cap * tanh(score / cap), whatever the cap",
)
def large_caps_attention(subject: Subject, case: AttentionCase) -> None:
    """Caps of 30 to 100, as models have them, on scores of their size, in decodes of long contexts too, and scores a
    hundred times as large as their cap."""
    cap = float(case.features["logit_cap"])
    step = AttentionStep(subject, case, loud=100.0 if cap == _SMALL_CAP else cap / 2)
    judge(step, step.got())


def large_sinks(subject: Subject, rng: random.Random) -> Iterator[AttentionCase]:
    for case in one_of_each(subject):
        if case.kind == "mha":
            case = replace(case, dims=(16, 16), dtype=compute_dtypes(subject)[0]).using(sinks=120.0)
            yield replace(case, mode="decode", requests=((40, 1), (3, 1)))
            yield replace(case, mode="extend", requests=((21, 6), (0, 30)))


@check(
    level=Level.KERNELS,
    requires=[attention_backend(), kv_kind("mha"), attention_feature("sinks")],
    cases=large_sinks,
    fix="let the sink take part in the maximum that is subtracted before the exponential",
)
def large_sinks_attention(subject: Subject, case: AttentionCase) -> None:
    """Sinks and scores that all are far above zero weigh by their differences only."""
    step = AttentionStep(subject, case, drawn=_far(1.0))
    judge(step, step.got())


def eight_bit_caches(subject: Subject, rng: random.Random) -> Iterator[AttentionCase]:
    for case in one_of_each(subject):
        for name in subject.declares.kv_dtypes:
            if getattr(torch, name) in FP8:
                scales = (0.25, 2.0) if case.kind == "mha" else None  # latent rows are not scaled
                stored = replace(case, kv_dtype=name, kv_scales=scales)
                yield replace(stored, mode="decode", requests=((300, 1), (70, 1), (3, 1)))
                yield replace(stored, mode="decode", requests=_LONG)
                yield replace(stored, mode="extend", requests=((200, 6), (0, 90)))


@check(
    level=Level.KERNELS,
    requires=[attention_backend(), kv_pool(), attention_feature("fp8_kv")],
    cases=eight_bit_caches,
    fix="read an 8-bit cache in its own format at every length, the rotated part of latent rows as well; take"
    " layer.k_scale and v_scale as tensors and as numbers, at each call",
)
def eight_bit_caches_attention(subject: Subject, case: AttentionCase) -> None:
    """8-bit caches of each declared format over some hundred tokens, of latent rows as well; and scales that are plain
    numbers, as SGLang writes those that it reads from a file (`models/llama.py`, load_kv_cache_scales, 0.5.23), and
    others after an update of the weights."""
    run_step(subject, case)
    if case.kv_scales is not None and case.requests != _LONG:
        step = AttentionStep(subject, case)
        step.layer.k_scale, step.layer.v_scale = case.kv_scales
        judge(step, step.got())
        step.case = replace(case, kv_scales=(case.kv_scales[1], case.kv_scales[0]))
        del step.layer, step.batch
        step.store_prefixes()
        judge(step, step.got())
