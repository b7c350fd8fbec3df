"""Level 4: a prefill of multi-head latent attention by heads, over its own rows: no pool holds them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

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

__all__: list[str] = []


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
    backend = None
    for number, lengths in enumerate(case.batches):
        requests = tuple((0, length) for length in lengths)
        page = subject.declares.page_sizes[0]
        step = AttentionStep(
            subject, AttentionCase("extend", requests, (2, 1), (16, 8), page, case.dtype, kind="mla")
        )
        backend = step.__dict__["backend"] = backend or step.backend
        key_dim, value_dim = case.dims
        q, k = (step.random_tokens(sum(lengths), case.heads, key_dim) for _ in range(2))
        v = step.random_tokens(sum(lengths), case.heads, value_dim)
        scale = key_dim**-0.5 * 1.25
        step.__dict__["layer"] = subject.parts.attention_layer(
            layer_id=step.layer_id,
            tp_q_head_num=case.heads,
            tp_k_head_num=case.heads,
            tp_v_head_num=case.heads,
            qk_head_dim=key_dim,
            v_head_dim=value_dim,
            scaling=scale,
            sliding_window_size=-1,
            logit_cap=0.0,
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
        for first, length in zip(accumulate((0, *lengths)), lengths, strict=False):
            rows = slice(first, first + length)
            wanted = attention(
                q[rows], k[rows], v[rows], AttentionRule(scale), first_position=0, dtype=step.dtype
            )
            ratio, where = worst_element(got[rows], wanted)
            expect(
                CURRENT.judged(ratio, got.dtype) <= 1,
                f"batch {number + 1}, of requests of {list(lengths)} tokens: wrong by {ratio:.3g} times the bound in"
                f" the request of {length}, at {list(where)}",
                case={"batch": number + 1},
            )
