"""SGLang's server kits that a platform is held to, by the names they have in its wheels (`sglang.test.kits`).

A kit is a mixin of tests for a server that somebody started, or a function. What is given to it besides the server is
here: sizes that fit a small device, and prompts in place of data sets that would be downloaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["KITS", "NOT_APPLICABLE", "Kit"]


@dataclass(frozen=True)
class Kit:
    """One kit. Looked up in the installed SGLang; a release without it is told so."""

    name: str
    module: str
    """In `sglang.test.kits`."""

    classes: tuple[str, ...] = ()
    """Mixins; without one, `function` is the test."""

    function: str | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """Of the test class, or arguments of the function."""

    seconds: float = 120
    """For each test."""

    left_out: Mapping[str, str] = field(default_factory=dict)
    """Tests that are not run, each with the reason."""


_DATA = "it downloads a data set, and judges a trained model's answers"

KITS: tuple[Kit, ...] = (
    Kit("API contract", "basic_api_contract_kit", ("BasicAPIContractMixin",)),
    Kit(
        "decode correctness",
        "basic_decode_correctness_kit",
        ("BasicDecodeCorrectnessMixin",),
    ),
    Kit(
        "scheduler stress",
        "basic_scheduler_stress_kit",
        ("BasicSchedulerStressMixin",),
    ),
    Kit(
        "stop",
        "matched_stop_kit",
        ("MatchedStopMixin",),
    ),
    Kit("Anthropic messages", "anthropic_messages_kit", ("AnthropicMessagesMixin",)),
    Kit(
        "cache hit",
        "cache_hit_kit",
        function="run_multiturn_cache_hit_test",
        attributes={"num_clients": 4, "request_length": 128, "output_length": 16},
    ),
    Kit("radix cache", "radix_cache_server_kit", function="run_radix_attention_test"),
    Kit(
        "abort",
        "abort_timeout_kit",
        ("AbortAllMixin",),
        attributes={"abort_all_num_requests": 8, "abort_all_max_new_tokens": 4000, "abort_all_sleep": 1},
    ),
    Kit(
        "pause and continue",
        "pause_generation_kit",
        ("PauseResumeInPlaceMixin",),
        attributes={
            "pause_num_requests": 8, "pause_max_new_tokens": 256, "pause_duration": 2, "pause_ignore_eos": True,
        },
    ),
    Kit(
        "KL divergence",
        "kl_divergence_kit",
        ("KLDivergenceMixin",),
        attributes={
            "kl_div_thres": 0.002, "kl_div_max_samples": 4, "kl_div_prefill_max_new_tokens": 32,
            "kl_div_decode_max_new_tokens": 32,
        },
    ),
    Kit(
        "unified radix cache",
        "unified_radix_cache_kit",
        ("UnifiedRadixTreeTestMixin",),
        attributes={"max_new_tokens": 16, "num_groups": 2, "branches_per_group": 2, "prefix_len": 128},
        left_out={"test_gsm8k": _DATA},
    ),
    Kit("log probabilities", "spec_server_kits", ("SpecLogprobKit",)),
    Kit("penalties", "spec_server_kits", ("SpecPenaltyKit",)),
    Kit("hidden states", "spec_server_kits", ("SpecHiddenStatesKit",)),
    Kit("streaming sessions", "streaming_session_kit", ("StreamingSessionKitMixin",), seconds=180),
    Kit("JSON mode", "json_mode_kit", ("JSONModeMixin",)),
    Kit("JSON", "json_constrained_kit", ("JSONConstrainedMixin",)),
    Kit("regular expressions", "regex_constrained_kit", ("RegexConstrainedMixin",)),
    Kit("EBNF", "ebnf_constrained_kit", ("EBNFConstrainedMixin",)),
)  # fmt: skip
"""Grammars last: what they need of a device is the most."""

NOT_APPLICABLE = {
    "prefix_cache_branching_kit": "judges the cache of models with recurrent layers, which keeps branching points",
    "dsa_metadata_kit": "CUDA kernels of DSA",
    "eval_accuracy_kit": _DATA,
    "hellaswag_kit": _DATA,
    "lm_eval_kit": _DATA,
    "mmmu_vlm_kit": _DATA,
    "vlm_perf_kit": "measures a vision model's speed",
    "perf_bench_kit": "measures speed",
    "fwd_occupancy_kit": "measures speed",
    "spec_decoding_kit": "measures speed",
    "reasoning_kit": "judges a reasoning model's answers",
    "pd_parity_kit": "needs two servers: the features level has disaggregation",
}
"""Kits that are not run, each with the reason."""
