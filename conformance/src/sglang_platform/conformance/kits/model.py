"""The model that SGLang's server kits ask: small, of random weights, with the vocabulary that they take for granted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sglang_platform.conformance.host.checkpoints import CHAT_TEMPLATE, make_checkpoint, make_tokenizer

__all__ = ["make_model"]

VOCABULARY = 32000
_END = "</s>"


def make_model(folder: Path) -> Path:
    """A Llama in `folder`: 32,000 tokens that all decode to text, a context of 131,072, `</s>` as token 2."""
    checkpoint = make_checkpoint(
        folder, "llama", vocab_size=VOCABULARY, hidden_size=128, intermediate_size=256, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=131072,
        bos_token_id=0, eos_token_id=2, pad_token_id=1,
    )  # fmt: skip
    _tokenizer().save_pretrained(checkpoint)
    return checkpoint


def _tokenizer() -> Any:
    """The suite's tokenizer with its end of text as token 2, filled up with words of letters and digits."""
    import json

    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    plain = json.loads(make_tokenizer().backend_tokenizer.to_str())
    ids = plain["model"]["vocab"]
    other = next(token for token, number in ids.items() if number == 2)
    ids[other], ids[_END] = ids[_END], 2
    for added in plain["added_tokens"]:
        added["id"] = ids[added["content"]]
    grown = Tokenizer.from_str(json.dumps(plain))
    grown.add_tokens([f" w{number}" for number in range(VOCABULARY - grown.get_vocab_size())])
    fast = PreTrainedTokenizerFast(tokenizer_object=grown, bos_token="<s>", eos_token=_END, pad_token="<pad>")
    fast.chat_template = CHAT_TEMPLATE
    return fast
