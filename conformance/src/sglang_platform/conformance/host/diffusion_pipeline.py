"""A small random-weight picture pipeline in diffusers format, saved by diffusers itself.

A Z-Image pipeline (one text encoder, one transformer, the Flux autoencoder), since it is the smallest that SGLang's
diffusion runtime serves with its own transformer, text encoder and scheduler. Same files and same loaders as real
weights, with all sizes shrunk.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sglang_platform.conformance.host.checkpoints import make_tokenizer
from sglang_platform.conformance.host.kept_folder import kept_folder

__all__ = ["MODEL_ID", "make_pipeline"]

MODEL_ID = "Z-Image"
"""What the host must be told that a folder of another name holds; otherwise it leaves the model to diffusers."""

_TRANSFORMER: dict[str, Any] = {
    "in_channels": 16,
    "dim": 256,
    "n_layers": 3,
    "n_refiner_layers": 1,
    "n_heads": 8,
    "n_kv_heads": 8,
    "cap_feat_dim": 64,
    "axes_dims": [8, 12, 12],
    "axes_lens": [1024, 64, 64],
}
_AUTOENCODER: dict[str, Any] = {
    "down_block_types": ("DownEncoderBlock2D",) * 4,
    "up_block_types": ("UpDecoderBlock2D",) * 4,
    "block_out_channels": (16, 16, 32, 32),
    "layers_per_block": 1,
    "latent_channels": 16,
    "norm_num_groups": 8,
    "scaling_factor": 0.3611,
    "shift_factor": 0.1159,
    "use_quant_conv": False,
    "use_post_quant_conv": False,
}
_TEXT_ENCODER: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 1024,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
}


def make_pipeline(folder: Path, *, seed: int = 0) -> Path:
    """Write the pipeline into `folder` and return it; one that is there already is kept. Weights are float32."""
    wanted = {"seed": seed, "sizes": [_TRANSFORMER, _AUTOENCODER, _TEXT_ENCODER]}
    return kept_folder(folder, wanted, lambda new: _write(new, seed))


def _write(folder: Path, seed: int) -> None:
    import torch
    from diffusers import (
        AutoencoderKL,
        FlowMatchEulerDiscreteScheduler,
        ZImagePipeline,
        ZImageTransformer2DModel,
    )
    from transformers import Qwen3Config, Qwen3Model

    tokenizer = make_tokenizer()
    torch.manual_seed(seed)
    pipeline = ZImagePipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=False, shift=3.0),
        vae=AutoencoderKL(**_AUTOENCODER),
        text_encoder=Qwen3Model(Qwen3Config(vocab_size=len(tokenizer), **_TEXT_ENCODER)),
        tokenizer=tokenizer,
        transformer=ZImageTransformer2DModel(**_TRANSFORMER),
    )
    pipeline.save_pretrained(folder)
    # SGLang reads two sizes under other names than diffusers writes, and otherwise takes those of the full model.
    config = folder / "transformer" / "config.json"
    sizes = json.loads(config.read_text())
    sizes.update(num_layers=sizes["n_layers"], num_attention_heads=sizes["n_heads"])
    config.write_text(json.dumps(sizes, indent=2))
