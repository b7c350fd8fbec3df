"""Level 4: attention at the sizes that kernels are written around."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from sglang_platform.conformance.check import check
from sglang_platform.conformance.fixtures.attention_case import AttentionCase
from sglang_platform.conformance.fixtures.attention_judge import judge, refused_in_words, run_step
from sglang_platform.conformance.fixtures.attention_sizes import (
    block_edges,
    loud_at_block_edges,
    loud_at_window_edges,
    one_of_each,
    served_batches,
    shapes_crossed,
    window_edges,
)
from sglang_platform.conformance.fixtures.attention_step import AttentionStep
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import (
    attention_backend,
    attention_feature,
    kv_kind,
    kv_pool,
)
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_SERVED = (attention_backend(), kv_pool())


@check(
    level=Level.KERNELS,
    requires=_SERVED,
    cases=shapes_crossed,
    fix="take the group, the head size and the width of the values each from the layer",
)
def heads_and_sizes_attention(subject: Subject, case: AttentionCase) -> None:
    """Every declared grouping of heads with every head size, values narrower than keys among them, and 1 to 128 latent
    heads over ranks of 16 to 512. Sizes may be refused in words."""
    with refused_in_words("heads and head sizes"):
        run_step(subject, case)


@check(
    level=Level.KERNELS,
    requires=_SERVED,
    cases=block_edges,
    seconds=120,
    fix="look at the last block of a context: full, of one token, and the one token that is left behind full ones",
)
def block_edges_attention(subject: Subject, case: AttentionCase) -> None:
    """Contexts, prefixes and chunks one token below, at and above what blocks of 16 to 2,048 tokens hold, and twice and
    three times that; chunks of a few tokens across the edge of one."""
    step = AttentionStep(subject, case, drawn=loud_at_block_edges)
    judge(step, step.got())


@check(
    level=Level.KERNELS,
    requires=[attention_backend(), kv_kind("mha"), attention_feature("sliding_window")],
    cases=window_edges,
    seconds=120,
    fix="compare positions, not blocks: a token at position i sees i - layer.sliding_window_size to i, however wide",
)
def window_edges_attention(subject: Subject, case: AttentionCase) -> None:
    """Windows of 15 to 4,096 tokens, at the edges of blocks, in contexts that reach past them by one token and more, by
    thousands where they are narrow."""
    step = AttentionStep(subject, case, drawn=loud_at_window_edges)
    judge(step, step.got())


@check(
    level=Level.KERNELS,
    requires=_SERVED,
    cases=served_batches,
    seconds=180,
    fix="take sizes from the batch: launch over all its requests and all its new tokens",
)
def served_batches_attention(subject: Subject, case: AttentionCase) -> None:
    """Decodes of 257 and 512 requests, and prefills of 4,103 and 8,704 new tokens, of two requests and of 512;
    prefills and decodes of requests that have one length."""
    run_step(subject, case)


@dataclass(frozen=True)
class Together:
    """`shared`: tokens that all requests have in the same slots."""

    step: AttentionCase
    shared: int


def together(subject: Subject, rng: random.Random) -> Iterator[Together]:
    """40 decodes of some 8,900 tokens, and extends of 17 such; thorough: 150 decodes, of more than 2**20 slots."""
    for case in one_of_each(subject):
        case = replace(case, dims=(16, 8) if case.kind != "mha" else (16, 16))
        for mode, count, new in (("decode", 40, 1), ("extend", 17, 2), ("decode", 150, 1)):
            if count < 100 or subject.thorough:
                shared = 8832 // case.page_size * case.page_size
                requests = tuple((shared + rng.randrange(0, 3 * case.page_size), new) for _ in range(count))
                yield Together(replace(case, mode=mode, requests=requests), shared)


@check(
    level=Level.KERNELS,
    requires=_SERVED,
    cases=together,
    seconds=180,
    fix="size what a batch needs by the sum of its contexts, and cut each context into as many splits as it needs,"
    " however many requests there are",
)
def long_contexts_in_wide_batches_attention(subject: Subject, case: Together) -> None:
    """17 and 40 requests of more than 8,192 tokens each: up to 350,000 slots in a batch, most of them shared."""
    step = AttentionStep(subject, case.step, shared=case.shared)
    judge(step, step.got())
