"""Mutants of speculative decoding: level 9 in a running engine, level 10 in SGLang's own attention kit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mutant import mutant

from sglang_platform.core.graph.runner import Drafts
from sglang_platform.example_oot.attention import ExampleOOTAttentionBackend
from sglang_platform.example_oot.platform import ATTENTION_BACKEND, ExampleOOTPlatform


class _TreesAsChains(ExampleOOTAttentionBackend):
    def forward_verify(self, q: Any, k: Any, v: Any, layer: Any, forward_batch: Any, **kwargs: Any) -> Any:
        told = forward_batch.spec_info
        forward_batch.spec_info = Drafts(told.draft_token_num, topk=1)
        try:
            return super().forward_verify(q, k, v, layer, forward_batch, **kwargs)
        finally:
            forward_batch.spec_info = told


class WithTreesAsChains(ExampleOOTPlatform):
    def get_attention_backends(self) -> dict[str, Callable[..., Any]]:
        return {ATTENTION_BACKEND: _TreesAsChains}


@mutant(
    check="features.ngram_drafts",
    defect="verification leaves the mask aside: a draft sees its siblings, and accepted tokens are wrong",
    says="transformers gives",
    host="sglang",
)
class MaskLeftAside(WithTreesAsChains):
    pass


@mutant(
    check="kits.attention",
    defect="verification leaves the mask aside: a draft sees its siblings",
    says="Tensor-likes are not close",
    host="sglang",
)
class MaskLeftAsideInTheKit(WithTreesAsChains):
    pass


class _FirstStepForAll(ExampleOOTAttentionBackend):
    def forward_draft(self, q: Any, k: Any, v: Any, layer: Any, forward_batch: Any, **kwargs: Any) -> Any:
        assert self.drafts is not None
        self.drafts = self.drafts._replace(step=0)
        return super().forward_draft(q, k, v, layer, forward_batch, **kwargs)


class _WithFirstStepForAll(ExampleOOTPlatform):
    def get_attention_backends(self) -> dict[str, Callable[..., Any]]:
        return {ATTENTION_BACKEND: _FirstStepForAll}


@mutant(
    check="features.standalone_chain",
    defect="every step of a draft model reads as far as its first: all tokens are right, and drafts are bad",
    says="verified steps",
    host="sglang",
)
class DraftsReadTooLittle(_WithFirstStepForAll):
    pass


class _ForgetsVerified(ExampleOOTAttentionBackend):
    def forward_draft_extend(self, q: Any, k: Any, v: Any, layer: Any, forward_batch: Any, **kw: Any) -> Any:
        return super().forward_draft_extend(q, k, v, layer, forward_batch, **{**kw, "save_kv_cache": False})


@mutant(
    check="features.standalone_tree",
    defect="a draft model does not store the tokens that were verified: its next drafts are of another text",
    says="steps",
    host="sglang",
)
class VerifiedTokensNotStored(ExampleOOTPlatform):
    def get_attention_backends(self) -> dict[str, Callable[..., Any]]:
        return {ATTENTION_BACKEND: _ForgetsVerified}
