"""Describes the decode attention of a launch to a platform that may serve it beside SGLang's prefill.

SGLang serves prefill and decode by two backends where `decode_attention_backend` is set (`HybridAttnBackend`). It is
described once all arguments are resolved, so nothing else of the launch depends on the answer.
"""

from __future__ import annotations

import os
from typing import Any

from sglang_platform.core.host import DecodeAsked
from sglang_platform.core.sglang.arguments.server_args import ATTENTION_FIELDS, asked_for
from sglang_platform.core.sglang.host_classes import load
from sglang_platform.core.sglang.versions import facts

__all__ = ["decode_asked"]

_PLAIN = (
    "DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "LlamaForCausalLM", "MistralForCausalLM", "MixtralForCausalLM",
    "Qwen2ForCausalLM", "Qwen2MoeForCausalLM", "Qwen3ForCausalLM", "Qwen3MoeForCausalLM",
)  # fmt: skip
"""Models whose layers all attend to all tokens, through one KV pool."""

_EIGHT_BIT = {"auto": False, "bf16": False, "bfloat16": False, "fp8_e4m3": True}
"""Whether a cache of this type is of 8-bit floats; other types are not described."""

_OTHER_DECODE = (
    "dllm_algorithm", "enable_deterministic_inference", "enable_dp_attention", "enable_hisparse", "enable_pdmux",
    "enable_torch_compile", "enable_two_batch_overlap", "enable_unified_memory", "speculative_algorithm",
)  # fmt: skip
"""Arguments that change what decode attention computes, or by which backends."""

_LAYOUTS = ("SGLANG_AITER_KV_CACHE_LAYOUT", "SGLANG_USE_HND_KVCACHE")
"""Variables that choose another layout of the cache than rows per slot."""


def decode_asked(server_args: Any) -> DecodeAsked | None:
    """The decode attention of a launch with these resolved arguments. None if the operator or SGLang chose its backend
    by name, or if it is more than attention of one new token to all tokens of a bfloat16 or e4m3 cache."""
    settled = server_args.attention_backend  # None where nothing is resolved
    if not settled or asked_for(server_args, "attention_backend") or not facts().model_config_of:
        return None
    if any(getattr(server_args, name) for name in (*ATTENTION_FIELDS[1:], *_OTHER_DECODE)):
        return None
    ranks, eight_bit = server_args.tp_size, _EIGHT_BIT.get(server_args.kv_cache_dtype)
    if eight_bit is None or any(name in os.environ for name in _LAYOUTS):
        return None
    if server_args.dcp_size > 1 or server_args.attn_cp_size > 1:
        return None
    model = load(facts().model_config_of)(server_args)
    is_plain = model.hf_config.architectures[0] in _PLAIN and not model.is_hybrid_swa
    if not is_plain or model.sliding_window_size or str(model.dtype) != "torch.bfloat16":
        return None
    latent = model.attention_arch.name == "MLA"
    heads = model.get_num_attention_heads(ranks)
    return DecodeAsked(
        beside=settled,
        latent=latent,
        eight_bit=eight_bit,
        group=heads if latent else heads // model.get_num_kv_heads(ranks),
        dim=model.kv_lora_rank + model.qk_rope_head_dim if latent else model.head_dim,
        page_size=server_args.page_size,
    )
