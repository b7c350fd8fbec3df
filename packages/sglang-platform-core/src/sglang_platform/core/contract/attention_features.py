"""What attention backends may compute: one row per feature, the words of `SRTPlatform.attention_features`.

A new feature is one row here and the kernels that compute it. The class check takes the word from the row; the
conformance suite takes the steps that it tries, what the oracle computes, and what must be refused. What belongs to the
suite is named as `"package.module:name"`, since core never imports it.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Any

__all__ = ["ATTENTION_FEATURES", "FEATURES", "AttentionFeature"]

_CASES = "sglang_platform.conformance.fixtures.attention_cases"
_FEATURES = "sglang_platform.conformance.fixtures.attention_features"


@dataclass(frozen=True, kw_only=True)
class AttentionFeature:
    """One feature, and how the suite asks for it.

    name: the word that a platform declares.
    means: what is computed, in a phrase.
    heads: shapes as (query heads, key heads) that a platform with this feature serves. The checks of decode and extend
        try all of them.
    check: the name of the feature's own check, without its level; None where no step uses this feature alone.
    fix: what to do where that check fails.
    cases: where the check's steps are made: a function `(subject, rng)` that yields `AttentionCase`, smallest first.
        Its docstring is what the check proves.
    asks: where a step is told of it: a function `(step, value)` that answers with `Asked`, what the platform is
        handed (fields of the layer, keywords of `forward()`) and what the float64 oracle is told. `value` is what
        the case says: a window, a cap. None where the cases say it by their shape, their mode or their dtype.
    refused_with: the value with which leaving the feature out shows. A platform that does not declare the feature is
        asked for it so, and must raise an error that says what is missing, or compute it. None: nothing is asked.
    otherwise: of a feature without heads and without a check of its own: what tests it, or why nothing does.
    """

    name: str
    means: str
    heads: tuple[tuple[int, int], ...] = ()
    check: str | None = None
    fix: str = ""
    cases: str | None = None
    asks: str | None = None
    refused_with: Any = None
    otherwise: str | None = None


_ROWS = (
    AttentionFeature(
        name="mha",
        means="a key head for every query head",
        heads=((1, 1), (4, 4)),
    ),
    AttentionFeature(
        name="gqa",
        means="several query heads read one key head: a run of neighbours",
        heads=((4, 2), (6, 2), (12, 4)),  # odd groups are where kernels that assume powers of two go wrong
    ),
    AttentionFeature(
        name="mqa",
        means="all query heads read one key head",
        heads=((5, 1), (8, 1)),
    ),
    AttentionFeature(
        name="chunked_prefill",
        means="new tokens against a cached prefix of their request",
        otherwise="extend_attention asks every platform for it",
    ),
    AttentionFeature(
        name="mixed_batch",
        means="decoding requests and prefills in one batch",
        check="mixed_batch_attention",
        fix="treat a decoding request of a mixed batch as an extend by one token",
        cases=f"{_CASES}:mixed_cases",
    ),
    AttentionFeature(
        name="sliding_window",
        means="a token sees `layer.sliding_window_size` positions before it, and itself",
        check="sliding_window_attention",
        fix="a token at position i sees positions i - layer.sliding_window_size to i",
        cases=f"{_FEATURES}:sliding_window_cases",
        asks=f"{_FEATURES}:sliding_window",
        refused_with=2,
    ),
    AttentionFeature(
        name="logit_cap",
        means="scores are bent to `cap * tanh(score / cap)`, with `layer.logit_cap`",
        check="logit_cap_attention",
        fix="score = scaling * q.k, then cap * tanh(score / cap), then the mask",
        cases=f"{_FEATURES}:logit_cap_cases",
        asks=f"{_FEATURES}:logit_cap",
        refused_with=30.0,
    ),
    AttentionFeature(
        name="sinks",
        means="one learned logit per query head in the denominator of the softmax",
        check="sink_attention",
        fix="take `sinks` [query heads] from forward()'s keywords, and add exp(sink) to the sum of each head's weights",
        cases=f"{_FEATURES}:sink_cases",
        asks=f"{_FEATURES}:sinks",
        refused_with=True,
    ),
    AttentionFeature(
        name="encoder",
        means="attention that is not causal",
        check="encoder_attention",
        fix="where layer.attn_type is encoder-only, every token sees every token of its request",
        cases=f"{_FEATURES}:encoder_cases",
        asks=f"{_FEATURES}:encoder",
        refused_with=True,
    ),
    AttentionFeature(
        name="cross_attention",
        means="new tokens against the keys of another sequence",
        otherwise="the suite lays out no second sequence",
    ),
    AttentionFeature(
        name="draft_tree",
        means="draft tokens against the prefix of their request, and each other as `spec_info.custom_mask` says",
        otherwise="drafts_are_verified asks every platform for it; `AttentionBackend.forward_verify` serves them all",
    ),
    AttentionFeature(
        name="mla",
        means="latent attention in the absorbed form: all query heads share one row, whose first part is the values",
        check="mla_attention",
        fix="all query heads share one row of kv_lora_rank + qk_rope_head_dim numbers, whose first kv_lora_rank are"
        " values",
        cases=f"{_CASES}:mla_cases",
    ),
    AttentionFeature(
        name="sparse",
        means="DSA's attention over the tokens that its indexer selected",
        otherwise="SGLang hands a platform's backend no selection; kernels are checked one by one",
    ),
    AttentionFeature(
        name="fp8_kv",
        means="keys and values are stored in an 8-bit float type, divided by a scale",
        check="fp8_kv_attention",
        fix="keys are stored as k / k_scale, values as v / v_scale: multiply what is read by layer.k_scale,"
        " layer.v_scale",
        cases=f"{_CASES}:fp8_cases",
    ),
)

FEATURES: dict[str, AttentionFeature] = {row.name: row for row in _ROWS}

ATTENTION_FEATURES: Set[str] = FEATURES.keys()
"""The words of `SRTPlatform.attention_features`: the names of the rows, as they are now."""
