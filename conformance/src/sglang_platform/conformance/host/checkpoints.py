"""Small random-weight checkpoints in Hugging Face format, with a tokenizer and a chat template.

Same files and same loader as real weights. Greedy decoding on random weights amplifies the smallest error, so equal
tokens are a strong check of every layer below.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sglang_platform.conformance.host.architectures import (
    ARCHITECTURES,
    COMMON,
    HYBRIDS,
    OF_OTHER_ATTENTION,
    OF_OTHER_OPS,
    VOCABULARY,
)
from sglang_platform.conformance.host.kept_folder import kept_folder

__all__ = ["CHAT_TEMPLATE", "make_checkpoint", "make_tokenizer"]

_TEXT = "".join(Path(__file__).with_name(name).read_text() for name in ("architectures.py", "checkpoints.py"))

_TIED_RANGE = 0.02
"""Of tied embeddings: with larger ones a model of random weights repeats the prompt's last token."""

CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>\n{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)


def make_checkpoint(folder: Path, architecture: str = "llama", *, seed: int = 0, **overrides: Any) -> Path:
    """Write a checkpoint of `architecture` into `folder` and return it; one that is there already is kept.

    `overrides` are fields of the Hugging Face configuration. Weights are float32. Raises ValueError for an unknown
    architecture.
    """
    known = {**ARCHITECTURES, **HYBRIDS, **OF_OTHER_OPS, **OF_OTHER_ATTENTION}
    if architecture not in known:
        raise ValueError(f"unknown architecture {architecture!r}; there are {', '.join(known)}")
    settings = {**COMMON, **known[architecture], **overrides}
    wanted = {"architecture": architecture, "seed": seed, "settings": settings}
    return kept_folder(folder, wanted, lambda new: _write(new, settings, seed))


def _write(folder: Path, settings: dict[str, Any], seed: int) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    fields = dict(settings)
    config = AutoConfig.for_model(fields.pop("model_type"), **fields)
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):  # zero by default, which would leave the biases unchecked
                parameter.normal_(0.0, config.initializer_range)
            if name.endswith("embed_tokens.weight") and config.tie_word_embeddings:
                parameter.normal_(0.0, _TIED_RANGE)
            if name.endswith("sinks"):  # the host keeps them in bfloat16
                parameter.copy_(parameter.bfloat16())
    model.save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)


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
