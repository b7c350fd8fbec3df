"""Level 4: a prefill of multi-head latent attention by heads, over its own rows: no pool holds them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from sglang_platform.conformance.check import check, expect
from sglang_platform.conformance.fixtures.attention_case import AttentionCase
from sglang_platform.conformance.fixtures.attention_cases import compute_dtypes
from sglang_platform.conformance.fixtures.attention_judge import refused_in_words
from sglang_platform.conformance.fixtures.attention_step import AttentionStep
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.oracles.attention import AttentionRule, attention, worst_element
from sglang_platform.conformance.requirement import attention_backend, attention_feature, kv_kind
from sglang_platform.conformance.subject import Subject
from sglang_platform.conformance.tolerance import CURRENT


@dataclass(frozen=True)
class PrefillByHeads:
    """`dims`: numbers of a key and of a value of a head. `batches`: tokens of each request, batch after batch."""

    heads: int
    dims: tuple[int, int]
    batches: tuple[tuple[int, ...], ...]
    dtype: str


def prefills(subject: Subject, rng: random.Random) -> Iterator[PrefillByHeads]:
    """Of one request and of several; the next batch has as many requests, of other lengths, or as many tokens."""
    dtypes = compute_dtypes(subject)
    yield PrefillByHeads(4, (48, 32), ((7,), (1,), (65,)), dtypes[0])
    yield PrefillByHeads(4, (48, 32), ((3, 9), (40, 17), (9, 3), (12, 1, 5)), dtypes[-1])
    yield PrefillByHeads(16, (192, 128), ((33, 130), (5, 64)), dtypes[0])


@check(
    level=Level.KERNELS,
    requires=[attention_backend(), kv_kind("mla"), attention_feature("mla")],
    cases=prefills,
    fix="where save_kv_cache is False and a key has another width than the pool's rows, attend to the k and v that are"
    " handed over, request by request, by the lengths of this batch; or refuse it",
)
def latent_prefills_by_heads_attention(subject: Subject, case: PrefillByHeads) -> None:
    """A prefill without a prefix, for which models with latent attention hand over keys and values by heads, values
    as a slice, and store the latent rows themselves: causal within each request, batch after batch on one backend; or
    it is refused."""
    backend, page, (key_dim, value_dim) = None, subject.declares.page_sizes[0], case.dims
    rule = AttentionRule(key_dim**-0.5 * 1.25)
    fields = {f"tp_{one}_head_num": case.heads for one in "qkv"}
    fields |= {"qk_head_dim": key_dim, "v_head_dim": value_dim, "sliding_window_size": -1}
    for number, lengths in enumerate(case.batches, 1):
        requests = tuple((0, length) for length in lengths)
        wanted = AttentionCase("extend", requests, (2, 1), (16, 8), page, case.dtype, kind="mla")
        step = AttentionStep(subject, wanted)
        backend = step.__dict__["backend"] = backend or step.backend
        q, k, v = (step.random_tokens(sum(lengths), case.heads, dim) for dim in (key_dim, key_dim, value_dim))
        step.__dict__["layer"] = subject.parts.attention_layer(
            layer_id=step.layer_id, scaling=rule.scale, logit_cap=0.0, **fields
        )
        # Values and a part of the keys come from one projection.
        projected = torch.cat((k, v), dim=2).to(subject.device)
        given = q.flatten(1).to(subject.device), k.to(subject.device), projected[:, :, key_dim:]
        out = None
        with refused_in_words("prefills of latent attention by heads"):
            out = step.forward(*given, save=False)
        if out is None:
            return
        got = out.cpu().reshape(sum(lengths), case.heads, value_dim)
        for length, *parts in zip(lengths, *(one.split(lengths) for one in (got, q, k, v)), strict=True):
            answered, *tokens = parts
            wanted_of_it = attention(*tokens, rule, first_position=0, dtype=step.dtype)
            ratio, where = worst_element(answered, wanted_of_it)
            expect(
                CURRENT.judged(ratio, got.dtype) <= 1,
                f"batch {number}, of requests of {list(lengths)} tokens: wrong by {ratio:.3g} times the bound in"
                f" the request of {length}, at {list(where)}",
                case={"batch": number},
            )
