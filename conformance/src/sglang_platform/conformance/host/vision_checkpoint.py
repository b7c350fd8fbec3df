"""A small random-weight Qwen2-VL checkpoint with its processor, pictures, and what transformers answers to them.

Qwen2-VL (Wang et al. 2024) has what a vision language model asks of a device: a vision encoder with attention over
pictures of any size, and rotary positions in three axes (M-RoPE) in its language model.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from sglang_platform.conformance.host.architectures import VOCABULARY
from sglang_platform.conformance.host.checkpoints import make_tokenizer
from sglang_platform.conformance.host.kept_folder import kept_folder

__all__ = ["PROMPT", "answer", "make_pictures", "make_vision_checkpoint"]

PROMPT = "Look: <|vision_start|><|image_pad|><|vision_end|> what is it?"
_SPECIAL = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>", "<|vision_pad|>")
_SIZES = ((84, 112), (56, 56), (112, 70))
"""Height and width of the pictures, in pixels."""

_TEXT = {
    "vocab_size": VOCABULARY + 64,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "max_position_embeddings": 8192,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
    "initializer_range": 0.08,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 6, 6]},
}
_VISION = {
    "depth": 2,
    "embed_dim": 64,
    "num_heads": 4,
    "hidden_size": 256,
    "mlp_ratio": 2,
    "patch_size": 14,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "in_channels": 3,
    "in_chans": 3,
    "initializer_range": 0.08,
}


def make_vision_checkpoint(folder: Path) -> Path:
    """Write the checkpoint, its processor and the pictures into `folder`; one that is there already is kept."""
    return kept_folder(folder, [_TEXT, _VISION], _write)


def _write(folder: Path) -> None:
    import torch
    from transformers import (
        AutoConfig,
        Qwen2VLForConditionalGeneration,
        Qwen2VLImageProcessor,
        Qwen2VLProcessor,
        Qwen2VLVideoProcessor,
    )

    tokenizer = make_tokenizer()
    tokenizer.chat_template = None
    tokenizer.add_special_tokens({"additional_special_tokens": list(_SPECIAL)})
    start, end, image, video, vision = tokenizer.convert_tokens_to_ids(list(_SPECIAL))
    config = AutoConfig.for_model(
        "qwen2_vl",
        text_config=_TEXT,
        vision_config=_VISION,
        image_token_id=image,
        video_token_id=video,
        vision_start_token_id=start,
        vision_end_token_id=end,
        vision_token_id=vision,
        tie_word_embeddings=False,
    )
    torch.manual_seed(0)
    model = Qwen2VLForConditionalGeneration(config).float()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0.0, 0.08)
    model.save_pretrained(folder)
    pictures = Qwen2VLImageProcessor(min_pixels=56 * 56, max_pixels=112 * 112)
    Qwen2VLProcessor(pictures, tokenizer, Qwen2VLVideoProcessor()).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    make_pictures(folder)


def make_pictures(folder: Path) -> list[Path]:
    """Pictures of random pixels, of different sizes."""
    import numpy
    from PIL import Image

    random = numpy.random.default_rng(0)
    paths = [folder / f"picture-{index}.png" for index in range(len(_SIZES))]
    for path, size in zip(paths, _SIZES, strict=True):
        Image.fromarray(random.integers(0, 256, (*size, 3), dtype=numpy.uint8)).save(path)
    return paths


def answer(checkpoint: Path, picture: Path, new_tokens: int) -> list[int]:
    """The greedy tokens of transformers for `PROMPT` with the picture, in float32."""
    from PIL import Image

    model, processor = _loaded(checkpoint)
    inputs = processor(text=[PROMPT], images=[Image.open(picture)], return_tensors="pt")
    model.generation_config.eos_token_id = None  # as to SGLang under `ignore_eos`
    output = model.generate(**inputs, do_sample=False, max_new_tokens=new_tokens)
    return output[0, inputs["input_ids"].shape[1] :].tolist()  # type: ignore[no-any-return]


@lru_cache(maxsize=1)
def _loaded(checkpoint: Path) -> tuple[Any, Any]:
    import torch
    from transformers import AutoProcessor, Qwen2VLForConditionalGeneration

    model = Qwen2VLForConditionalGeneration.from_pretrained(checkpoint, dtype=torch.float32).eval()
    return model, AutoProcessor.from_pretrained(checkpoint)
