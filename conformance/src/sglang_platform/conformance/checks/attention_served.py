"""Level 4: attention as it is met in use: served shapes, long contexts, wide batches, batches one after the other,
prefixes that requests share, scores that overflow, and every pair of declared features."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace

from sglang_platform.conformance.check import CheckFailed, check
from sglang_platform.conformance.fixtures.attention_case import AttentionCase
from sglang_platform.conformance.fixtures.attention_cases import (
    compute_dtypes,
    edge_cases,
    eight_bit_dtypes,
    feature_shapes,
    feature_steps,
)
from sglang_platform.conformance.fixtures.attention_features import asked_beside_others
from sglang_platform.conformance.fixtures.attention_judge import judge, refused_in_words, run_step
from sglang_platform.conformance.fixtures.attention_sizes import one_of_each
from sglang_platform.conformance.fixtures.attention_step import AttentionStep
from sglang_platform.conformance.fixtures.served_models import served_steps
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import attention_backend, kv_kind, kv_pool
from sglang_platform.conformance.subject import Subject

_SERVED = (attention_backend(), kv_pool())
_LOUD = 60.0
"""Scores of some hundreds: past what the exponential of any type of 32 bits holds."""


@check(
    level=Level.KERNELS,
    requires=_SERVED,
    cases=served_steps,
    seconds=180,
    fix="serve the heads, head sizes and features of this model, or raise NotImplementedError that names the limit",
)
def served_models_attention(subject: Subject, case: AttentionCase) -> None:
    """Decode and extend in the shapes of models that people serve: groups of 1 to 71 heads, head sizes of 64 to 256, up
    to 128 latent heads, with the features of their layers. A shape may be refused in words."""
    with refused_in_words("heads and head sizes"):
        run_step(subject, case)


def long_context_cases(subject: Subject, rng: random.Random) -> Iterator[AttentionCase]:
    """Past 8,192 tokens, in decode and extend, and past the 32,767 that a short integer holds."""
    for case in one_of_each(subject):
        yield replace(case, mode="decode", requests=((8200, 1), (3, 1)))
        yield replace(case, mode="extend", requests=((8300, 21),))
        yield replace(case, mode="decode", requests=((33000, 1),))


@check(
    level=Level.KERNELS,
    requires=_SERVED,
    cases=long_context_cases,
    seconds=180,
    fix="look at what is done per block of the context: the merge of partial results, tables by page, 16-bit numbers",
)
def long_context_attention(subject: Subject, case: AttentionCase) -> None:
    """Contexts of 8,200 and 33,000 tokens."""
    run_step(subject, case)


def wide_batches(subject: Subject, rng: random.Random) -> Iterator[AttentionCase]:
    """64 and 256 requests of unlike lengths, prefills of many tokens, and with 128 heads more rows of queries than 16
    bits count."""
    lengths = [(rng.randrange(0, 70), 1) for _ in range(256)]
    for case in one_of_each(subject):
        yield replace(case, mode="decode", requests=tuple(lengths[:64]))
        yield replace(case, mode="decode", requests=tuple(lengths))
        yield replace(
            case, mode="extend", requests=tuple((rng.randrange(0, 40), 1 + i % 5) for i in range(33))
        )
        yield replace(case, mode="extend", requests=((40, 1100),))
        if case.kind == "mla":
            requests, page = tuple((i % 3, 1) for i in range(552)), min(subject.declares.page_sizes)
            yield replace(
                case, mode="decode", requests=requests, heads=(128, 1), dims=(16, 8), page_size=page
            )


@check(
    level=Level.KERNELS,
    requires=_SERVED,
    cases=wide_batches,
    seconds=180,
    fix="take sizes from the batch, not from a fixed number of requests, rows or blocks",
)
def wide_batch_attention(subject: Subject, case: AttentionCase) -> None:
    """Batches of 64 and 256 requests of unlike lengths, of 552 with 128 latent heads, and a prefill of 1,100 tokens."""
    run_step(subject, case)


@check(
    level=Level.KERNELS,
    requires=_SERVED,
    cases=edge_cases,
    fix="make what a batch needs anew in init_forward_metadata(), in buffers that are large enough, and keep nothing of"
    " the batch before; take the scale from the layer at each call",
)
def batches_follow_each_other(subject: Subject, case: AttentionCase) -> None:
    """On one backend, batches of other requests, lengths and modes, large after small and small after large, through
    layers of unlike scales, are each right."""
    step = AttentionStep(subject, replace(case, mode="extend", requests=((0, 9), (5, 30), (70, 3), (0, 1))))
    judge(step, step.got())
    for mode, chosen, scale in (
        ("decode", [1], 1.0),
        ("decode", [3, 0, 2, 1], 2.0),
        ("extend", [2, 0], 1.0),
        ("decode", [0, 2], 0.5),
        ("extend", [1], 1.0),
        ("decode", [0, 1, 2, 3], 1.0),
    ):
        after = step.following(mode, chosen, scale)  # type: ignore[arg-type]
        try:
            judge(after, after.got())
        except CheckFailed as failed:
            raise CheckFailed(
                f"a {mode} of requests {chosen} of four, after other batches on the same backend: {failed.what}"
            ) from None


@check(
    level=Level.KERNELS,
    requires=_SERVED,
    cases=edge_cases,
    fix="read keys and values through req_to_token alone: requests share the pages of a common prefix",
)
def shared_prefix_attention(subject: Subject, case: AttentionCase) -> None:
    """Requests whose first pages are the same slots are each attended to whole: a few tokens and more than 64, the
    first request as long as what is shared and longer, and requests of one length among them."""
    page = case.page_size
    for shared in (2 * page, -(-65 // page) * page):
        ascending = (0, 3, 3, shared)
        for more in (ascending, ascending[::-1]):
            lengths = [shared + beyond for beyond in more]
            extend = replace(case, mode="extend", requests=tuple(zip(lengths, (2, 1, 2, 5), strict=True)))
            decode = replace(case, mode="decode", requests=tuple((length, 1) for length in lengths))
            for each in (extend, decode):
                step = AttentionStep(subject, each, shared=shared)
                judge(step, step.got())


@check(
    level=Level.KERNELS,
    requires=_SERVED,
    cases=edge_cases,
    fix="subtract the largest score of a row before the exponential, and again where partial results are merged",
)
def large_scores_do_not_overflow(subject: Subject, case: AttentionCase) -> None:
    """Scores of some hundreds give finite outputs, and the right ones."""
    step = AttentionStep(subject, replace(case, dtype=compute_dtypes(subject)[0]), loud=_LOUD)
    judge(step, step.got())


def feature_pairs(subject: Subject, rng: random.Random) -> Iterator[AttentionCase]:
    """Every two of the declared features that one layer can ask for, in decode and extend, at unlike shapes."""
    declared, asked = subject.declares.attention_features, asked_beside_others(subject)
    steps = list(feature_steps(subject))
    fp8 = eight_bit_dtypes(subject)
    pairs: list[dict[str, object]] = [dict(pair) for pair in itertools.combinations(asked.items(), 2)]
    if len(asked) > 2:
        pairs.append(dict(asked))
    for at, pair in enumerate(pairs):
        for case in steps[at % 2 :: 2]:
            yield replace(case, features=pair)
    for at, (name, value) in enumerate(asked.items()):
        for case in steps[at % 2 :: 2]:
            for kv_dtype in fp8:
                yield replace(case, features={name: value}, kv_dtype=kv_dtype, kv_scales=(0.25, 2.0))
            if "mixed_batch" in declared:
                yield replace(
                    case, mode="mixed", requests=((0, 30), (40, 1), (17, 6)), features={name: value}
                )
    if "mixed_batch" in declared:
        for kv_dtype in fp8:
            for case in steps[:2]:
                mixed = replace(case, mode="mixed", requests=((0, 30), (40, 1), (17, 6)))
                yield replace(mixed, kv_dtype=kv_dtype, kv_scales=(0.25, 2.0))
    for case in feature_shapes(subject):
        for name, value in asked.items():
            yield replace(case, features={name: value})
        for kv_dtype in fp8[:1]:
            yield replace(case, kv_dtype=kv_dtype, kv_scales=(0.25, 2.0))


@check(
    level=Level.KERNELS,
    requires=[attention_backend(), kv_kind("mha")],
    cases=feature_pairs,
    seconds=120,
    fix="each feature must hold beside every other that is declared: window and cap, sinks and window, a scaled fp8 "
    "cache and any of them",
)
def pairs_of_features(subject: Subject, case: AttentionCase) -> None:
    """Any two declared features in one layer give what both together mean, and each holds at every grouping of heads
    and every head size, with values as wide as keys and narrower."""
    run_step(subject, case)
