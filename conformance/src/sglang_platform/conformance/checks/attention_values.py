"""Level 4: attention over the ranges of numbers that models have, and with features at their ranges and beside each
other, a row for each."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from sglang_platform.conformance.fixtures.attention_case import AttentionCase
from sglang_platform.conformance.fixtures.attention_cases import (
    compute_dtypes,
    decode,
    edge_cases,
    eight_bit_caches,
    extend,
    joined,
    one_of_each,
    over,
    served_heads,
    steps,
)
from sglang_platform.conformance.fixtures.attention_features import asked_beside_others
from sglang_platform.conformance.fixtures.attention_numbers import BLOCKS
from sglang_platform.conformance.fixtures.attention_rows import row
from sglang_platform.conformance.fixtures.pairwise import pairwise
from sglang_platform.conformance.requirement import kv_kind
from sglang_platform.conformance.subject import Subject


def _sixteen_bits(subject: Subject) -> Iterator[Mapping[str, Any]]:
    for name in compute_dtypes(subject):
        if getattr(torch, name).itemsize == 2:
            yield {"dtype": name}


def _most_exact(subject: Subject) -> Iterator[Mapping[str, Any]]:
    yield {"dtype": compute_dtypes(subject)[0]}


row(
    "scores_far_from_zero",
    "Scores of some hundreds give finite outputs, and the right ones; scores that all are far below zero, or far above"
    " it, weigh by their differences only; so do scores of later blocks, of 16 to 2,048 keys, that lie more than 88"
    " above those of the first, of one key or of all, or below. Of models of 16 bits scores about 150 that lie close"
    " together weigh as they do in float32, and over 9,000 tokens that score alike the answer is the mean of their"
    " values, which added up lie past the largest float16.",
    joined(
        over(
            steps(decode(40, 700), extend((90, 6), (0, 70)), small=True),
            _sixteen_bits,
            [{"drawn": "close together", "exact_scores": True}],
        ),
        over(steps(decode(9000, 40), extend((9000, 3)), small=True), _sixteen_bits, [{"drawn": "flat"}]),
        over(edge_cases, _most_exact, [{"loud": 60.0}, {"drawn": "far below"}, {"drawn": "far above"}]),
        over(
            steps(
                decode(*(3 * block + 2 for block in BLOCKS)),
                extend(*((3 * block + 2, 3) for block in BLOCKS[:-2])),
                small=True,
            ),
            [{"drawn": "rising"}, {"drawn": "one of all"}, {"drawn": "falling"}],
        ),
    ),
    fix="keep scores and sums in float32 (at 150 bfloat16 tells apart whole numbers only, and float16 ends at 65,504);"
    " keep the maximum of all scores so far, from minus infinity on, subtract it before the exponential, multiply what"
    " was summed by exp(old - new) when it rises, and merge splits by their maxima",
)

# Features at their ranges, and beside each other

_SHORT = (decode(40, 3), extend((21, 6), (0, 30)))
_STEPS = (decode(16, 90, 40), extend((20, 17), (0, 9), (64, 1)), ("mixed", ((0, 30), (40, 1), (17, 6))))
_SPLIT = (1025, 2049, 4097, 8193, 9000)
"""Tokens of a context: one more than what splits of keys hold, and many of them."""

_WINDOWS = (15, 16, 31, 63, 64, 127, 128, 255, 511, 1023, 1024, 2047, 4095, 4096)
_NARROW = (15, 63, 127, 511)
"""Of a long context such a window leaves most splits empty."""


def window_edges(subject: Subject, rng: random.Random) -> Iterator[AttentionCase]:
    """Windows one below and at what blocks hold, up to the 4,096 of models that are served, in contexts that they end
    inside."""
    for window in _WINDOWS:
        each = [
            decode(*(window + more for more in (-1, 0, 1, 2, 17, 64, 65, 200))),
            extend((window - 1, 3), (window, 2), (window + 40, 70), (2 * window % 1500, 33)),
        ]
        each += [decode(699, 1000, 1544, 2600, 5010)] if window in _NARROW else []
        each += [extend((100, 600), (0, 300))] if window == 127 else []
        asked = {"features": {"sliding_window": window}, "drawn": "loud at the edge of the window"}
        yield from over(steps(*each, kinds=("mha",)), [asked])(subject, rng)


row(
    "features_at_their_ranges",
    "Windows of 15 to 4,096 tokens, at the edges of blocks, in contexts that reach past them by one token and more, by"
    " thousands where they are narrow; caps of 30 to 100, as models have them, on scores of their size, and scores a"
    " hundred times as large as their cap; sinks and scores that all are far above zero weigh by their differences"
    " only; sinks, caps, windows, and 8-bit caches over contexts of 1,025 to 9,000 tokens, one more than splits hold"
    " among them.",
    joined(
        window_edges,
        over(
            steps(*_SHORT, decode(2100, 700, 40), kinds=("mha",)),
            [
                {"features": {"logit_cap": cap}, "loud": loud}
                for cap, loud in ((30.0, 15.0), (50.0, 25.0), (100.0, 50.0), (0.5, 100.0))
            ],
        ),
        over(
            steps(*_SHORT, kinds=("mha",), small=True), [{"features": {"sinks": 120.0}, "drawn": "far above"}]
        ),
        over(
            steps(
                decode(*(n - 1 for n in _SPLIT)),
                extend((4094, 3), (0, 5), (8300, 2)),
                kinds=("mha",),
                small=True,
            ),
            lambda subject: [
                {"features": {"sinks": 9.0}},  # as much as some thousand keys weigh together
                {"features": {"logit_cap": 30.0}, "loud": 15.0},
                {"features": {"sliding_window": 2500}},
                {"features": {"sinks": 8.0, "sliding_window": 2500}},
                *itertools.islice(eight_bit_caches(subject), 1),
            ],
        ),
    ),
    requires=(kv_kind("mha"),),
    fix="compare positions, not blocks: a token at position i sees i - layer.sliding_window_size to i, however wide;"
    " bend every score to cap * tanh(score / cap); let the sink take part in the maximum that is subtracted, and add it"
    " once, when the splits of keys are merged, not in every split",
)


def _shapes(subject: Subject, kind: str) -> dict[str, Sequence[Any]]:
    """What differs in pools of keys and values, and of latent rows."""
    if kind == "mla":
        return {"heads": [(heads, 1) for heads in (2, 7, 16)], "dims": [(16, 8), (128, 64), (512, 64)]}
    asked = asked_beside_others(subject)
    together = [names for n in range(len(asked) + 1) for names in itertools.combinations(asked, n)]
    return {
        "features": [{name: asked[name] for name in names} for names in together],
        "heads": served_heads(subject),
        "dims": [(16, 16), (64, 64), (128, 128), (192, 128), (80, 80)],
        "cache": [{}, *eight_bit_caches(subject)],
    }


def pairs(subject: Subject, rng: random.Random) -> Iterator[AttentionCase]:
    """Rows in which each two values of two dimensions meet, for each kind of pool, each in decode and in extend; where
    both are in one batch, each third."""
    for case in one_of_each(subject):
        dimensions = {
            **_shapes(subject, case.kind),
            "page_size": list(subject.declares.page_sizes),
            "dtype": compute_dtypes(subject),
            "handed": ["flat", "slices", "by heads", "part of heads"],
            "drawn": [None, "far below", "far above"],
            "shared": [0, 1],
            "poisoned": [False, True],
            "then": [(), (("decode", (2, 0), 2.0), ("extend", (1, 2), 0.5)), (("extend", (0,), 1.0),)],
        }
        mixed = case.kind == "mha" and "mixed_batch" in subject.declares.attention_features
        for number, fields in enumerate(pairwise(dimensions, rng)):
            scaled = fields.pop("cache", {})
            shared = fields["shared"] = fields["shared"] * fields["page_size"]
            for mode, requests in _STEPS[: 3 if mixed and number % 3 == 0 else 2]:
                requests = tuple((cached + shared, new) for cached, new in requests)
                yield replace(case, mode=mode, requests=requests, **fields, **scaled)


row(
    "pairs_of_features",
    "Any two of what one step may be give what both together mean: declared features, alone and together, modes,"
    " groupings of heads, head sizes with values as wide as keys and narrower, page sizes, types, 8-bit caches, the way"
    " in which tokens are handed over, scores far from zero, shared prefixes, NaN in other slots, and steps that"
    " follow.",
    pairs,
    fix="each feature must hold beside every other that is declared: window and cap, sinks and window, a scaled fp8 "
    "cache and any of them",
)
