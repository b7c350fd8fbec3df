"""The models that are built at random: their configurations in the terms of Hugging Face, small but whole."""

from __future__ import annotations

from typing import Any

__all__ = ["ARCHITECTURES", "COMMON", "HYBRIDS", "OF_OTHER_ATTENTION", "OF_OTHER_OPS", "VOCABULARY"]

VOCABULARY = 1024

COMMON: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "max_position_embeddings": 8192,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
    "tie_word_embeddings": False,
    # Large enough that attention and experts matter to the result, as in a trained model.
    "initializer_range": 0.08,
}

_EXPERTS: dict[str, Any] = {
    "intermediate_size": 512,
    "head_dim": 32,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 128,
    "norm_topk_prob": True,
}

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "llama": {"model_type": "llama", "intermediate_size": 512, "head_dim": 32},
    "qwen2": {"model_type": "qwen2", "intermediate_size": 512},
    "qwen3_moe": {
        "model_type": "qwen3_moe",
        **_EXPERTS,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    },
    # Multi-head latent attention, with dense and expert layers.
    "deepseek_v3": {
        "model_type": "deepseek_v3",
        "intermediate_size": 512,
        "num_key_value_heads": 8,
        "q_lora_rank": 96,
        "kv_lora_rank": 128,
        "qk_nope_head_dim": 32,
        "qk_rope_head_dim": 16,
        "qk_head_dim": 48,
        "head_dim": 16,
        "v_head_dim": 32,
        "n_routed_experts": 8,
        "num_experts_per_tok": 2,
        "n_shared_experts": 1,
        "n_group": 2,
        "topk_group": 1,
        "moe_intermediate_size": 128,
        "first_k_dense_replace": 1,
        "moe_layer_freq": 1,
        "norm_topk_prob": True,
        "topk_method": "noaux_tc",
        "scoring_func": "sigmoid",
        "routed_scaling_factor": 2.5,
    },
}

HYBRIDS: dict[str, dict[str, Any]] = {
    # Layers of full attention and of a sliding window of 64 tokens in turn.
    "mellum": {
        "model_type": "mellum",
        **_EXPERTS,
        "sliding_window": 64,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "mlp_layer_types": ["sparse", "dense"] * 2,
    },
    # Layers of gated short convolutions, whose state is kept per request, and of attention.
    "lfm2": {
        "model_type": "lfm2",
        "intermediate_size": 512,
        "block_auto_adjust_ff_dim": False,
        "conv_L_cache": 3,
        "layer_types": ["conv", "full_attention"] * 2,
    },
    # Layers of a gated delta rule, whose state is a matrix per head, and of attention; all with experts.
    "qwen3_next": {
        "model_type": "qwen3_next",
        **_EXPERTS,
        "head_dim": 64,
        "shared_expert_intermediate_size": 128,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 32,
        "linear_value_head_dim": 64,
        "linear_conv_kernel_dim": 4,
        "full_attention_interval": 2,
        "layer_types": ["linear_attention", "full_attention"] * 2,
    },
    # Layers of Mamba-2 and of attention, with experts.
    "granitemoehybrid": {
        "model_type": "granitemoehybrid",
        "intermediate_size": 128,
        "shared_intermediate_size": 128,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "mamba_n_heads": 8,
        "mamba_d_head": 64,
        "mamba_d_state": 32,
        "mamba_n_groups": 1,
        "mamba_d_conv": 4,
        "mamba_expand": 2,
        "mamba_chunk_size": 64,
        "position_embedding_type": "rope",
        "embedding_multiplier": 1.0,
        "attention_multiplier": 0.1767766952966369,
        "residual_multiplier": 1.0,
        "logits_scaling": 1.0,
        "layer_types": ["mamba", "attention"] * 2,
    },
}
"""Models whose layers keep different things per token; the host has rules of its own for them, on pages for example."""

OF_OTHER_OPS: dict[str, dict[str, Any]] = {
    # Norms that add one to their weight, with and without a residual, and a gelu with a gate.
    "gemma2": {
        "model_type": "gemma2",
        "intermediate_size": 512,
        "head_dim": 32,
        "hidden_act": "gelu_pytorch_tanh",  # SGLang reads this name, transformers another
        "query_pre_attn_scalar": 32,
        "tie_word_embeddings": True,  # SGLang ties them whatever this says
        "initializer_range": 0.02,
        "sliding_window": 8192,
        "layer_types": ["full_attention"] * 4,
        "attn_logit_softcapping": None,
        "final_logit_softcapping": None,
    },
    # A rotary embedding of the host's that derives from the plain one and computes the same from another table.
    "llama3": {
        "model_type": "llama",
        "intermediate_size": 512,
        "head_dim": 32,
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 10000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 1024,
        },
    },
}
"""Models for whose layers the host has fused ops that the others do not reach."""

OF_OTHER_ATTENTION: dict[str, dict[str, Any]] = {
    # Norms of each head's queries and keys.
    "qwen3": {"model_type": "qwen3", "intermediate_size": 512, "head_dim": 32},
    # Layers of a window and full ones in turn, logits of attention and of the result capped.
    "gemma2_capped": {
        **OF_OTHER_OPS["gemma2"],
        "initializer_range": 0.08,
        "query_pre_attn_scalar": 4,
        "sliding_window": 64,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "attn_logit_softcapping": 5.0,  # small enough that it changes the result
        "final_logit_softcapping": 4.0,
    },
    # Five layers of a window to a full one, each kind with a rotary base of its own, norms of each head.
    "gemma3": {
        "model_type": "gemma3_text",
        "architectures": ["Gemma3ForCausalLM"],
        "num_hidden_layers": 6,
        "intermediate_size": 512,
        "head_dim": 32,
        "query_pre_attn_scalar": 4,  # sharp, or every step would attend to all alike
        "hidden_activation": "gelu_pytorch_tanh",
        "tie_word_embeddings": True,
        "sliding_window": 64,
        "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            "full_attention": {"rope_type": "default", "rope_theta": 1000000.0},
        },
    },
    # Attention with sinks, layers of a window and full ones in turn, YaRN, experts with biases and a clamp.
    "gpt_oss": {
        "model_type": "gpt_oss",
        "intermediate_size": 128,
        "head_dim": 32,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "sliding_window": 64,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "swiglu_limit": 0.5,  # small enough that it changes the result
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 150000.0,
            "factor": 8.0,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "truncate": False,
            "original_max_position_embeddings": 1024,
        },
    },
    # The first half of each head turned, in pairs of neighbours; biases; norms before and after each block.
    "glm4": {
        "model_type": "glm4",
        "intermediate_size": 512,
        "head_dim": 32,
        "attention_bias": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5},
    },
}
"""Models whose attention is not plain: windows, caps, sinks, two rotary bases, heads turned in part."""
