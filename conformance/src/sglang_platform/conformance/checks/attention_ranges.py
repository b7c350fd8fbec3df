"""Level 4: attention where scores rise along a context, lie close together far from zero, and over long contexts with
each feature."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import torch

from sglang_platform.conformance.check import CheckFailed, check
from sglang_platform.conformance.fixtures.attention_case import AttentionCase
from sglang_platform.conformance.fixtures.attention_cases import compute_dtypes, eight_bit_dtypes
from sglang_platform.conformance.fixtures.attention_judge import judge
from sglang_platform.conformance.fixtures.attention_sizes import one_of_each
from sglang_platform.conformance.fixtures.attention_step import AttentionStep
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.oracles.attention import attention, worst_element
from sglang_platform.conformance.requirement import attention_backend, kv_kind, kv_pool
from sglang_platform.conformance.subject import Subject
from sglang_platform.conformance.tolerance import CURRENT

__all__: list[str] = []

_SERVED = (attention_backend(), kv_pool())

_BLOCKS = (16, 32, 64, 128, 256, 512, 1024, 2048)
_LOUD = 20.0
"""In queries and keys: times itself, times the scale of heads of 16 to 24 numbers, a score of more than 88."""

_LONG = (1025, 2049, 4097, 8193, 9000)
"""Tokens of a context: one more than what splits of keys hold, and many of them."""


def rising(subject: Subject, rng: random.Random) -> Iterator[AttentionCase]:
    """A context for each size of a block, in decode and in extend."""
    for case in one_of_each(subject):
        case = replace(case, dims=(16, 8) if case.kind != "mha" else (16, 16))
        yield replace(case, mode="decode", requests=tuple((3 * block + 2, 1) for block in _BLOCKS))
        yield replace(case, mode="extend", requests=tuple((3 * block + 2, 3) for block in _BLOCKS[:-2]))


def _step_up(step: AttentionStep) -> None:
    """Every key past the first block of a context scores more than 88 above those in it; the last as much once more."""
    for q in step.q:
        q[..., 0] = _LOUD
    for k, block in zip(step.k, _BLOCKS, strict=False):
        k[..., 0] = 0.0
        k[block:, :, 0] = _LOUD
        k[-3:, :, 0] = 2 * _LOUD


def _one_of_all(step: AttentionStep) -> None:
    """One key in the last third of a context scores more than 88 above all others."""
    for q in step.q:
        q[..., 0] = _LOUD
    for k, block in zip(step.k, _BLOCKS, strict=False):
        k[..., 0] = 0.0
        k[2 * block + 1, :, 0] = _LOUD


def _fall(step: AttentionStep) -> None:
    """The first key scores more than 88 above the first block, and that as much above all that follows."""
    for q in step.q:
        q[..., 0] = _LOUD
    for k, block in zip(step.k, _BLOCKS, strict=False):
        k[..., 0] = -_LOUD
        k[:block, :, 0] = 0.0
        k[0, :, 0] = _LOUD


@check(
    level=Level.KERNELS,
    requires=_SERVED,
    cases=rising,
    seconds=120,
    fix="keep the maximum of all scores so far, block after block, and when it rises multiply what was summed by"
    " exp(old - new); merge splits by their maxima",
)
def scores_that_rise_attention(subject: Subject, case: AttentionCase) -> None:
    """Scores of later blocks that lie more than 88 above those of the first, of one key or of all, and more than 88
    below, for blocks of 16 to 2,048 keys."""
    for drawn in (_step_up, _one_of_all, _fall):
        step = AttentionStep(subject, case, drawn=drawn)
        judge(step, step.got())


def close(subject: Subject, rng: random.Random) -> Iterator[AttentionCase]:
    """In each type of 16 bits."""
    names = [name for name in compute_dtypes(subject) if getattr(torch, name).itemsize == 2]
    for case in one_of_each(subject):
        case = replace(case, dims=(16, 8) if case.kind != "mha" else (16, 16))
        for name in names:
            yield replace(case, mode="decode", requests=((40, 1), (700, 1)), dtype=name)
            yield replace(case, mode="extend", requests=((90, 6), (0, 70)), dtype=name)


def _close_together(step: AttentionStep) -> None:
    """All scores are about 150, and differ by some units. Queries times the scale are exact in 8 bits, so that a kernel
    that scales its queries first rounds nothing."""
    step.scale = 0.3125
    for q in step.q:
        q.copy_((q * 4).round().clamp(-12, 12) / 4)
        q[..., 0] = 16.0
    for k in step.k:
        k[..., 0] = 30.0


@check(
    level=Level.KERNELS,
    requires=_SERVED,
    cases=close,
    fix="keep scores in float32 from the product to the softmax: at 150 bfloat16 tells apart whole numbers only",
)
def close_scores_attention(subject: Subject, case: AttentionCase) -> None:
    """Scores about 150 that lie close together, of queries in 16 bits, weigh as they do in float32."""
    step = AttentionStep(subject, case, drawn=_close_together)
    out = step.got()
    judge(step, out)
    first = 0
    for request, (cached, new) in enumerate(case.requests):
        expected = attention(
            step.q[request],
            step.k[request],
            step.v[request],
            step.rule(),
            first_position=cached,
            dtype=step.dtype,
            scores_in=torch.float32,
        )
        got = out[first : first + new].cpu().reshape(expected.value.shape)
        first += new
        ratio, where = worst_element(got, expected)
        if CURRENT.judged(ratio, out.dtype) > 1:
            raise CheckFailed(
                f"request {request}, token {where[0]} of its new ones, head {where[1]}: {float(got[where]):.5g}, and"
                f" must be {float(expected.value[where]):.5g} (within {float(expected.bound[where]):.2g}): scores"
                " about 150 are less exact than float32"
            )


def long_features(subject: Subject, rng: random.Random) -> Iterator[AttentionCase]:
    """Each feature that is declared, over contexts that are cut into splits."""
    declared = subject.declares.attention_features
    for case in one_of_each(subject):
        if case.kind != "mha":
            continue
        case = replace(case, dims=(16, 16))
        asked: list[AttentionCase] = []
        if "sinks" in declared:
            asked.append(case.using(sinks=9.0))  # as much as some thousand keys weigh together
        if "logit_cap" in declared:
            asked.append(case.using(logit_cap=30.0))
        if "sliding_window" in declared:
            asked.append(case.using(sliding_window=2500))
        if {"sinks", "sliding_window"} <= set(declared):
            asked.append(case.using(sinks=8.0, sliding_window=2500))
        for name in eight_bit_dtypes(subject)[:1]:
            asked.append(replace(case, kv_dtype=name, kv_scales=(0.25, 2.0)))
        for one in asked:
            yield replace(one, mode="decode", requests=tuple((n - 1, 1) for n in _LONG))
            yield replace(one, mode="extend", requests=((4094, 3), (0, 5), (8300, 2)))


@check(
    level=Level.KERNELS,
    requires=[attention_backend(), kv_kind("mha")],
    cases=long_features,
    seconds=180,
    fix="where keys are cut into splits, apply what belongs to the whole row once, when the splits are merged: a sink"
    " is added once, not in every split",
)
def features_over_long_contexts(subject: Subject, case: AttentionCase) -> None:
    """Sinks, caps, windows, and 8-bit caches over contexts of 1,025 to 9,000 tokens, one more than splits hold among
    them."""
    step = AttentionStep(subject, case, loud=15.0 if "logit_cap" in case.features else 1.0)
    judge(step, step.got())
