"""Families of models, one engine each: what a profile of the suite stands on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sglang_platform.conformance.host import reference
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.features.record import EngineLaunch, feature
from sglang_platform.conformance.host.features.running import Running

__all__: list[str] = []

_GROUP = "Models"
_LENGTHS = (1, 17, 64, 300, 1100)
_LONG = (8200, 1, 12000)
"""Past 8,192 tokens: every block size that kernels for long contexts have in use."""

_NEW_TOKENS = 24


def _with_long_positions(models: Path) -> Mapping[str, Any]:
    return {"model_path": str(make_checkpoint(models / "llama-long", max_position_embeddings=16384))}


@feature(
    group=_GROUP,
    title="a mixture of experts (Qwen3-MoE)",
    launch=EngineLaunch("moe", architecture="qwen3_moe"),
    fix="look at the fused op of the experts, and at the router's top-k",
)
def mixture_of_experts(run: Running) -> None:
    """Prompts alone and together give the tokens of transformers."""
    run.gives_the_tokens(reference.prompts(_LENGTHS), _NEW_TOKENS)


@feature(
    group=_GROUP,
    title="latent attention (DeepSeek-V3)",
    launch=EngineLaunch("mla", architecture="deepseek_v3"),
    fix="look at MLA: one row of kv_lora_rank + qk_rope_head_dim per token, in pool, decode and extend",
)
def latent_attention(run: Running) -> None:
    """Prompts alone and together give the tokens of transformers."""
    run.gives_the_tokens(reference.prompts(_LENGTHS), _NEW_TOKENS)


@feature(
    group=_GROUP,
    title="prompts of 8,200 and 12,000 tokens",
    launch=EngineLaunch(
        "long-context",
        {"max_total_tokens": 49152, "chunked_prefill_size": 2048},
        prepare=_with_long_positions,
    ),
    fix="look at what is done per block of the context: the merge of splits, indices of 32 bits, tables by page",
    seconds=600,
)
def long_context(run: Running) -> None:
    """Prompts past 8,192 tokens, alone and beside a short one, give the tokens of transformers."""
    run.gives_the_tokens(reference.prompts(_LONG), _NEW_TOKENS, batches=[[0], [0, 1, 2]])
