"""The words of `SRTPlatform.attention_features`: one per feature that attention backends may compute.

A platform declares the features it computes, and must refuse a layer that asks for another one.
"""

from __future__ import annotations

from collections.abc import Set

__all__ = ["ATTENTION_FEATURES", "FEATURES"]

FEATURES: dict[str, str] = {
    "mha": "a key head for every query head",
    "gqa": "several query heads read one key head: a run of neighbours",
    "mqa": "all query heads read one key head",
    "chunked_prefill": "new tokens against a cached prefix of their request",
    "mixed_batch": "decoding requests and prefills in one batch",
    "sliding_window": "a token sees `layer.sliding_window_size` positions before it, and itself",
    "logit_cap": "scores are bent to `cap * tanh(score / cap)`, with `layer.logit_cap`",
    "sinks": "one learned logit per query head in the denominator of the softmax",
    "encoder": "attention that is not causal",
    "cross_attention": "new tokens against the keys of another sequence",
    "draft_tree": "draft tokens against the prefix of their request, and each other as `spec_info.custom_mask` says",
    "mla": "latent attention in the absorbed form: all query heads share one row, whose first part is the values",
    "sparse": "DSA's attention over the tokens that its indexer selected",
    "fp8_kv": "keys and values are stored in an 8-bit float type, divided by a scale",
}
"""Each feature with what it computes."""

ATTENTION_FEATURES: Set[str] = FEATURES.keys()
"""The words alone; a live view of `FEATURES`."""
