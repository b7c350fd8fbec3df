"""Level 10 mutants: what SGLang's own server tests see of a running server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mutant import mutant

from sglang_platform.example_oot.attention import ExampleOOTAttentionBackend
from sglang_platform.example_oot.platform import ATTENTION_BACKEND, ExampleOOTPlatform


class _DecodesSharper(ExampleOOTAttentionBackend):
    def forward_decode(self, q: Any, *args: Any, **kwargs: Any) -> Any:
        return super().forward_decode(q * 8, *args, **kwargs)


@mutant(
    check="kits.sglang_kl_divergence",
    defect="decode scales its scores by another number than prefill: a text is scored otherwise than it was written",
    says="test_input_output_logprobs_match_decode_cache_hit",
    host="sglang",
)
class DecodeScalesOtherwise(ExampleOOTPlatform):
    def get_attention_backends(self) -> dict[str, Callable[..., Any]]:
        return {ATTENTION_BACKEND: _DecodesSharper}
