"""Level 4: each feature that attention may have, by its row in `fixtures.attention_features`, and prefills by heads.

What is declared is compared with the oracle; what is not declared is refused, and never left out in silence.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from sglang_platform.conformance.check import CheckFailed, check, expect
from sglang_platform.conformance.fixtures.asked import Asked
from sglang_platform.conformance.fixtures.attention_case import AttentionCase
from sglang_platform.conformance.fixtures.attention_cases import compute_dtypes, edge_cases, feature_steps
from sglang_platform.conformance.fixtures.attention_features import FEATURES
from sglang_platform.conformance.fixtures.attention_judge import judge, refused_in_words
from sglang_platform.conformance.fixtures.attention_rows import SERVED, row
from sglang_platform.conformance.fixtures.attention_step import AttentionStep
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.oracles.attention import worst_element
from sglang_platform.conformance.requirement import attention_backend, attention_feature, kv_kind
from sglang_platform.conformance.subject import Subject

for _feature in FEATURES.values():
    if _feature.check is not None:
        row(
            _feature.check,
            _feature.cases.__doc__,
            _feature.cases,
            fix=_feature.fix,
            requires=[attention_feature(_feature.name)],
            founds=f"attention with {_feature.name}",
        )


FIELDS: Mapping[str, Any] = {
    "is_cross_attention": True,
    "use_irope": True,
    "pos_encoding_mode": "ALIBI",
    "xai_temperature_len": 2,
    "logit_capping_method": "sigmoid",
}
"""Fields of SGLang's `RadixAttention` without a word, each with a value that changes the result."""


@dataclass(frozen=True)
class UndeclaredFeature:
    """`feature` is a word of `attention_features`, one of `FIELDS`, or the type that a model computes in."""

    feature: str
    step: AttentionCase


def undeclared_features(subject: Subject, rng: random.Random) -> Iterator[UndeclaredFeature]:
    """For each feature, and each type, that is not declared, the steps of most tokens in which leaving it out shows."""
    declared = subject.declares.attention_features
    found: list[tuple[str, list[AttentionCase]]] = []
    for feature in FEATURES.values():
        if feature.refused_with is not None and feature.name not in declared:
            shows = {feature.name: feature.refused_with}
            found.append(
                (feature.name, [one for one in feature.cases(subject, rng) if one.features == shows])
            )
    for name in FIELDS:
        asked = {"logit_cap": 1.0} if name == "logit_capping_method" else {}
        if asked.keys() <= declared and not (name == "is_cross_attention" and "cross_attention" in declared):
            found.append((name, [one.using(**asked) for one in feature_steps(subject)]))
    for dtype in ("float32", "bfloat16", "float16") if subject.host == "none" else ():
        if dtype not in subject.declares.kv_dtypes:
            found.append((dtype, [replace(one, dtype=dtype) for one in edge_cases(subject, rng)]))
    for name, cases in found:
        last = {(one.kind, one.mode): one for one in cases if one.mode != "mixed"}
        yield from (UndeclaredFeature(name, step) for step in last.values())


@check(
    level=Level.KERNELS,
    requires=SERVED,
    cases=undeclared_features,
    fix="raise NotImplementedError where the layer, its type or the keywords of forward() ask for what the kernels do"
    " not compute, as `AttentionBackend.forward` of core does for fields of the layer; or compute it, and add it to"
    " attention_features, a type to supported_kv_dtypes, a field of the layer to `layer_fields`",
)
def undeclared_feature_is_refused(subject: Subject, case: UndeclaredFeature) -> None:
    """A feature, a type of the model, or a field of the layer that is not declared is refused with an error, or
    computed rightly; it is never just left out."""
    try:
        step = AttentionStep(subject, case.step)
        if case.feature in FIELDS:
            setattr(step.layer, case.feature, FIELDS[case.feature])
            step.asked.append(Asked(runner={"attention_chunk_size": 2}))
            if case.feature in getattr(step.backend, "layer_fields", ()):
                return
        out = step.got()
    except CheckFailed:  # it was computed, and changed what it was lent
        raise
    except Exception as error:
        if str(error):
            return
        what = f"{case.feature} is refused with a bare {type(error).__name__}, which says nothing"
        raise CheckFailed(what) from error
    if case.feature in FIELDS:
        ratio, _ = worst_element(out.cpu().reshape(-1, case.step.heads[0], step.v_dim), step.expected())
        expect(
            ratio > 1,
            f"layer.{case.feature}={FIELDS[case.feature]!r} is neither declared nor refused: the output is that of a"
            " layer without it",
        )
        return
    try:
        judge(step, out)
    except CheckFailed as failed:
        what = f"{case.feature} is neither declared nor refused, and the output is wrong: {failed.what}"
        raise CheckFailed(what) from None


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
    for number, lengths in enumerate(case.batches, 1):
        requests = tuple((0, length) for length in lengths)
        step = AttentionStep(
            subject, AttentionCase("extend", requests, (2, 1), (16, 8), page, case.dtype, kind="mla")
        )
        backend = step.__dict__["backend"] = backend or step.backend
        step.case, (step.dim, step.v_dim) = replace(step.case, heads=(case.heads, case.heads)), case.dims
        step.q, step.k, step.v = (
            [step.random_tokens(length, case.heads, dim) for length in lengths]
            for dim in (key_dim, key_dim, value_dim)
        )
        q, k, v = step.handed()
        projected = torch.cat((k, v), dim=2)  # values and a part of the keys come from one projection
        out = None
        with refused_in_words("prefills of latent attention by heads"):
            out = step.forward(q, k, projected[:, :, key_dim:], save=False)
        if out is None:
            return
        try:
            judge(step, out)
        except CheckFailed as failed:
            raise CheckFailed(
                f"batch {number}, of requests of {list(lengths)} tokens: {failed.what}",
                case={"batch": number},
                fix=failed.fix,
            ) from None
