"""Small random-weight checkpoints in Hugging Face format, with a tokenizer and a chat template.

Same files and same loader as real weights. Greedy decoding on random weights amplifies the smallest error, so equal
tokens are a strong check of every layer below.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["ARCHITECTURES", "CHAT_TEMPLATE", "HYBRIDS", "OF_OTHER_OPS", "make_checkpoint", "make_tokenizer"]

VOCABULARY = 1024
_TEXT = Path(__file__).read_text()

_COMMON: dict[str, Any] = {
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
        "initializer_range": 0.02,  # larger ones would repeat the prompt's last token
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

CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>\n{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)


def make_checkpoint(folder: Path, architecture: str = "llama", *, seed: int = 0, **overrides: Any) -> Path:
    """Write a checkpoint of `architecture` into `folder` and return it; one that is there already is kept.

    `overrides` are fields of the Hugging Face configuration. Weights are float32. Raises ValueError for an unknown
    architecture.
    """
    known = {**ARCHITECTURES, **HYBRIDS, **OF_OTHER_OPS}
    if architecture not in known:
        raise ValueError(f"unknown architecture {architecture!r}; there are {', '.join(known)}")
    done = folder / "complete.json"
    wanted = {
        "architecture": architecture,
        "seed": seed,
        "settings": {**_COMMON, **known[architecture], **overrides},
    }
    if done.exists() and json.loads(done.read_text()) == wanted:
        return folder
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    settings = dict(wanted["settings"])
    config = AutoConfig.for_model(settings.pop("model_type"), **settings)
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):  # zero by default, which would leave the biases unchecked
                parameter.normal_(0.0, config.initializer_range)
    folder.mkdir(parents=True, exist_ok=True)
    for answers_of_another in folder.glob("reference-*.json"):
        answers_of_another.unlink()
    model.save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    done.write_text(json.dumps(wanted))
    return folder


def make_tokenizer() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<s>", "</s>", "<pad>", "<|system|>", "<|user|>", "<|assistant|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([_TEXT] * 4, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast
