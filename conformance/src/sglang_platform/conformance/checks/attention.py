"""Level 4: one step of attention over the paged cache against float64, a row for each kind of step.

Scores and features as models have them are in `attention_values.py`, what only some platforms compute in
`attention_features.py`; how attention is called, and what it keeps, in
`attention_calls.py`.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch

from sglang_platform.conformance.fixtures.attention_case import AttentionCase
from sglang_platform.conformance.fixtures.attention_cases import (
    compute_dtypes,
    decode,
    decode_cases,
    edge_cases,
    extend,
    extend_cases,
    joined,
    one_of_each,
    over,
    served_heads,
    steps,
)
from sglang_platform.conformance.fixtures.attention_numbers import BLOCKS
from sglang_platform.conformance.fixtures.attention_rows import row
from sglang_platform.conformance.fixtures.far_rows import BEHIND
from sglang_platform.conformance.fixtures.served_models import served_steps
from sglang_platform.conformance.oracles.fp8 import FP8
from sglang_platform.conformance.subject import Subject

# Lengths, heads and types

row(
    "decode_attention",
    "One new token per request against its cached tokens and itself, for every declared grouping of heads.",
    decode_cases,
    founds="attention backend",
    fix="attend to the first seq_lens[i] tokens of each request, through req_to_token[req_pool_indices[i]]",
)
row(
    "extend_attention",
    "New tokens against their cached prefix and themselves, causal: without a prefix, with one that ends inside, at and"
    " behind the edge of a page, and several requests at once.",
    extend_cases,
    founds="attention backend",
    fix="the new token in row i of a request stands at position prefix + i, and sees the prefix and the new tokens up"
    " to itself",
)

_HEAD_DIMS = (
    *((64, 64), (96, 64), (128, 128), (192, 128), (192, 192), (72, 72), (160, 160), (256, 256), (80, 80)),
    *((96, 96), (112, 112), (16, 16)),
)
_LATENTS, _LATENT_HEADS = ((16, 8), (256, 32), (512, 64), (128, 64)), (1, 7, 16, 40, 128)


def shapes_crossed(subject: Subject, rng: random.Random) -> Iterator[AttentionCase]:
    """Every declared grouping of heads with every head size, and numbers of latent heads with ranks."""
    kinds = {case.kind for case in one_of_each(subject)}
    pages, dtypes = subject.declares.page_sizes, compute_dtypes(subject)
    shapes = [("mha", heads, dims) for heads in served_heads(subject) for dims in _HEAD_DIMS]
    shapes += [("mla", (heads, 1), dims) for heads in _LATENT_HEADS for dims in _LATENTS]
    for at, (kind, heads, dims) in enumerate(shapes):
        for mode, requests in (decode(37, 0), extend((19, 5), (0, 18))) if kind in kinds else ():
            page, dtype = pages[at % len(pages)], dtypes[at % len(dtypes)]
            yield AttentionCase(mode, requests, heads, dims, page, dtype, kind=kind)


row(
    "served_models_attention",
    "Decode and extend with every declared grouping of heads and every head size, values narrower than keys among them,"
    " and 1 to 128 latent heads over ranks of 16 to 512; and in the shapes of models that people serve, with groups of"
    " up to 71 heads and the features of their layers. A shape may be refused in words.",
    joined(shapes_crossed, served_steps),
    may_refuse="heads and head sizes",
    fix="take the group, the head size and the width of the values each from the layer, and serve the features of this"
    " model, or raise NotImplementedError that names the limit",
)


def _other_types(subject: Subject) -> Iterator[Mapping[str, Any]]:
    stored = [name for name in subject.declares.kv_dtypes if getattr(torch, name) not in FP8]
    for kv_dtype, dtype in itertools.product(stored, compute_dtypes(subject)):
        if kv_dtype != dtype:
            yield {"dtype": dtype, "kv_dtype": kv_dtype}


row(
    "cache_of_another_type_than_the_model",
    "A cache of another float type than the model computes in (`--kv-cache-dtype`) is read rightly, and the output has"
    " the type of the queries. A pair of types may be refused in words.",
    over(steps(decode(40, 3), extend((21, 6), (0, 3))), _other_types),
    may_refuse="these types",
    fix="read the cache in its own type, and answer in the type of the queries; or raise NotImplementedError that names"
    " the types which do not go together",
)

_LENGTHS = sorted({n * block + d for block in BLOCKS for n in (1, 2, 3) for d in (-1, 0, 1)})
_NEWS = [n for n in _LENGTHS if n <= 129]
_PREFIXES = tuple((n, _NEWS[at * 5 % len(_NEWS)]) for at, n in enumerate(n for n in _LENGTHS if n <= 513))
_ACROSS = tuple((n * block - 2, 6) for block in BLOCKS for n in (1, 3) if n * block < 2100)
"""Few new tokens, as drafts are, of which the first ones see nothing of the last block."""
_MIXED = (*_PREFIXES[:12], *((n - 1, 1) for n in _LENGTHS[:20]), (0, 65))

row(
    "wide_batch_attention",
    "Batches of 64 to 512 requests of unlike lengths, of 552 with 128 latent heads, of requests that have one length,"
    " and prefills of 1,100 to 8,704 new tokens, of one request and of 512.",
    joined(
        steps(
            decode(*(at * 37 % 70 for at in range(64))),
            decode(*(at * 37 % 70 for at in range(256))),
            extend(*((at * 17 % 40, 1 + at % 5) for at in range(33))),
            extend((40, 1100)),
            decode(*(at * 7 % 12 for at in range(257))),
            decode(*(at * 7 % 12 for at in range(512))),
            extend((0, 2100), (30, 2003)),
            extend(*((at % 23, 17) for at in range(512))),
            *(extend(*(one,) * 5) for one in ((70, 9), (0, 33), (33, 1))),
            decode(*(70,) * 6),
        ),
        over(  # with 128 heads more rows of queries than 16 bits count
            steps(decode(*(at % 3 for at in range(552))), kinds=("mla",)),
            lambda subject: [
                {"heads": (128, 1), "dims": (16, 8), "page_size": min(subject.declares.page_sizes)}
            ],
        ),
    ),
    fix="take sizes from the batch, not from a fixed number of requests, rows or blocks: launch over all its requests"
    " and all its new tokens",
)


def together(subject: Subject, rng: random.Random) -> Iterator[AttentionCase]:
    """40 decodes of some 8,900 tokens, and extends of 17 such; thorough: 150 decodes, of more than 2**20 slots."""
    for mode, count, new in (("decode", 40, 1), ("extend", 17, 2), ("decode", 150, 1)):
        for case in steps((mode, ()), small=True)(subject, rng) if count < 100 or subject.thorough else ():
            shared = 8832 // case.page_size * case.page_size
            requests = tuple((shared + rng.randrange(0, 3 * case.page_size), new) for _ in range(count))
            yield replace(case, requests=requests, shared=shared)


row(
    "long_context_attention",
    "Contexts, prefixes and chunks one token below, at and above what blocks of 16 to 2,048 tokens hold, and twice and"
    " three times that; chunks of a few tokens across the edge of one; contexts of 8,200 and 33,000 tokens, past the"
    " 32,767 that a short integer holds, and 17 and 40 requests of more than 8,192 tokens each: up to 350,000 slots in"
    " a batch, most of them shared.",
    joined(
        over(
            joined(
                steps(
                    decode(*(n - 1 for n in _LENGTHS if n <= 800)),
                    decode(*(n - 1 for n in _LENGTHS if n > 800)),
                    extend(*_PREFIXES),
                    extend(*((0, n) for n in _NEWS)),
                    extend(*_ACROSS, (500, 16), (1019, 9)),
                ),
                steps(("mixed", _MIXED), kinds=("mha",), needs="mixed_batch"),
            ),
            [{"drawn": "loud at the edges of blocks"}],
        ),
        steps(decode(8200, 3), extend((8300, 21)), decode(33000)),
        together,
    ),
    fix="look at the last block of a context: full, of one token, and the one token that is left behind full ones; and"
    " at what is done per block of the context: the merge of partial results, tables by page, 16-bit numbers;"
    " size what a batch needs by the sum of its contexts, and cut each context into as many splits as it needs, however"
    " many requests there are",
)


def common_prefixes(subject: Subject, rng: random.Random) -> Iterator[AttentionCase]:
    """Of a few tokens and of more than 64; the first request as long as what is shared and longer."""
    for case in edge_cases(subject, rng):
        page = case.page_size
        for shared in (2 * page, -(-65 // page) * page):
            for more in ((0, 3, 3, shared), (shared, 3, 3, 0)):
                lengths = [shared + beyond for beyond in more]
                for mode, requests in (extend(*zip(lengths, (2, 1, 2, 5), strict=True)), decode(*lengths)):
                    yield replace(case, mode=mode, requests=requests, shared=shared)


row(
    "shared_prefix_attention",
    "Requests whose first pages are the same slots are each attended to whole: a few tokens and more than 64, the first"
    " request as long as what is shared and longer, and requests of one length among them.",
    common_prefixes,
    fix="read keys and values through req_to_token alone: requests share the pages of a common prefix",
)

# What was handed over before

_FIRST = {"mode": "extend", "requests": ((0, 9), (5, 30), (70, 3), (0, 1))}
_AFTER = (
    *(("decode", (1,), 1.0), ("decode", (3, 0, 2, 1), 2.0), ("extend", (2, 0), 1.0), ("decode", (0, 2), 0.5)),
    *(("extend", (1,), 1.0), ("decode", (0, 1, 2, 3), 1.0)),
)

row(
    "batches_follow_each_other",
    "On one backend, batches of other requests, lengths and modes, large after small and small after large, through"
    " layers of unlike scales, are each right, and leave what the calls before them answered as it was: models hold one"
    " layer's output while the next is computed, as where two batches overlap.",
    over(edge_cases, [{**_FIRST, "then": _AFTER}]),
    fix="make what a batch needs anew in init_forward_metadata(), in buffers that are large enough, and keep nothing of"
    " the batch before; take the scale from the layer at each call",
)

# Where rows lie, and what lies beside them

row(
    "unused_slots_never_reach_the_output",
    "With NaN in every slot that belongs to no request, in the rest of each last page and in the padding slot, the"
    " output is the same.",
    over(edge_cases, [{"poisoned": True}]),
    fix="never let a slot outside the request into the result: mask loads, not only scores, since 0 * NaN is NaN",
)

_BEHIND_EACH_OTHER = extend((21, 6), (0, 30), (40, 1))
_AND_DECODE = {"then": (("decode", (0, 1, 2), 1.0),)}
_CONTEXT = 131_072
"""Tokens that the models of today take: the width of a request table."""


def far_steps(subject: Subject, rng: random.Random) -> Iterator[AttentionCase]:
    """Of the first kind; thorough: of each."""
    cases = list(over(steps(_BEHIND_EACH_OTHER), [_AND_DECODE])(subject, rng))
    yield from cases if subject.thorough else cases[:1]


def _far_tables(subject: Subject) -> Iterator[Mapping[str, Any]]:
    """More cells than float32 counts, than 32 bits count in bytes, and than they count."""
    for cells in (2**24, 2**29, 2**31) if subject.thorough else (2**24, 2**29):
        yield {"table": (cells // _CONTEXT + 16, _CONTEXT)}


row(
    "far_rows_attention",
    "Prefills and decodes whose slots lie more than 2**31 bytes behind the start of the pool's buffers, and of requests"
    " in the last rows of a request table for contexts of 131,072 tokens, of 144 rows and of 4,112.",
    joined(over(far_steps, [{"far": BEHIND}]), over(far_steps, _far_tables)),
    fix="compute in 64 bits where a row lies (slot * bytes of a row is more than 32 bits count in a pool of a few GiB),"
    " and where a row of req_to_token begins: row * width, in bytes, is more where some thousand requests may have"
    " 131,072 tokens each",
)

# How tokens are handed over

row(
    "attention_takes_tokens_of_any_layout",
    "Queries, keys and values that are slices of one tensor, and queries of [T, heads, dim], as models with latent"
    " attention hand them over, also as a part of wider heads, as before a gate, give the same as flat ones.",
    over(
        edge_cases,
        lambda subject: [
            {"dtype": subject.declares.kv_dtypes[0], "handed": "slices"},
            {"handed": "by heads"},
            {"handed": "part of heads"},
        ],
    ),
    fix="use the strides of q, k and v, or reshape() instead of view(): they are slices of a fused projection; take the"
    " number of rows from q.shape[0], and reshape q to [-1, layer.tp_q_head_num, layer.qk_head_dim]",
)
