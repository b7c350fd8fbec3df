"""The model that SGLang's server kits ask: small, with the vocabulary that they take for granted, and taught to answer.

    python -m sglang_platform.conformance.kits.model FOLDER

Most kits compare SGLang with itself, and take any weights. Some ask for the capital of France, or for a text that ends:
those the model learns in two minutes on a CPU, from nothing, the same weights each time.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sglang_platform.conformance.host.checkpoints import CHAT_TEMPLATE, make_checkpoint
from sglang_platform.conformance.host.kept_folder import kept_folder
from sglang_platform.conformance.kits.lessons import STORY, Lesson, lessons, sentences

__all__ = ["make_model"]

# Imports inside functions: torch and transformers take seconds, and a model that is there needs neither.

VOCABULARY = 32000
_WORDS = 2000
"""Tokens that a text is cut into; the others are only there to be decoded."""

_START, _PAD, _END = "<s>", "<pad>", "</s>"
_SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 131072,
    "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "initializer_range": 0.02,
}  # fmt: skip
_STEPS, _BATCH, _RATE = 500, 24, 5e-3
_SHORT = 32
"""Tokens of the story that most lessons go on with."""


def make_model(folder: Path, steps: int = _STEPS) -> Path:
    """A Llama in `folder`: 32,000 tokens that all decode to text, a context of 131,072, `</s>` as token 2, taught.

    One that has learnt the same is kept. Raises ImportError where SGLang is not installed: its kits have the questions.
    """
    learnt = lessons(sentences(), _schema())
    wanted = hashlib.sha256(json.dumps([learnt, STORY, steps, _BATCH, _RATE, _SIZES]).encode()).hexdigest()
    return kept_folder(folder, wanted, lambda new: _write(new, learnt, steps))


def _write(folder: Path, learnt: list[Lesson], steps: int) -> None:
    make_checkpoint(folder, "llama", **_SIZES)
    tokenizer, words = _tokenizer(learnt)
    tokenizer.save_pretrained(folder)
    _teach(folder, learnt, tokenizer, words, steps)


def _schema() -> str | None:
    kit = importlib.import_module("sglang.test.kits.json_constrained_kit")
    return str(kit.JSONConstrainedMixin.json_schema)


def _tokenizer(learnt: list[Lesson]) -> tuple[Any, int]:
    """Byte-level BPE of the lessons' text, and how many tokens it has; filled up with words of letters and digits."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    plain = Tokenizer(models.BPE())
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = decoders.ByteLevel()
    special = [_START, _PAD, _END, "<|system|>", "<|user|>", "<|assistant|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=_WORDS,
        special_tokens=special,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    plain.train_from_iterator((text for one in learnt for text in (one.question, one.answer)), trainer)
    written = json.loads(plain.to_str())
    vocabulary = written["model"]["vocab"]
    words = len(vocabulary)
    vocabulary.update({f"Ġw{number}": number for number in range(words, VOCABULARY)})
    fast = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(written)),
        bos_token=_START,
        eos_token=_END,
        pad_token=_PAD,
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast, words


def _teach(checkpoint: Path, learnt: list[Lesson], tokenizer: Any, words: int, steps: int) -> None:
    """Gradient descent on answers alone, over the words that a text is cut into.

    One thread, so that the weights are the same on a machine with more of them.
    """
    import torch
    from transformers import AutoModelForCausalLM

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
    body, rest = model.model, model.model.embed_tokens.weight.detach()[words:]
    said = torch.nn.Parameter(body.embed_tokens.weight.detach()[:words].clone())
    head = torch.nn.Parameter(model.lm_head.weight.detach()[:words].clone())
    learning = [said, head, *(one for name, one in body.named_parameters() if "embed_tokens" not in name)]
    optimiser = torch.optim.AdamW(learning, lr=_RATE, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, _RATE, total_steps=steps, pct_start=0.1)
    unsaid = torch.log(torch.tensor(float(VOCABULARY - words)))
    for rows in _batches(learnt, tokenizer, steps):
        length = max(len(ids) for ids, _ in rows)
        tokens = torch.tensor([ids + [1] * (length - len(ids)) for ids, _ in rows])
        answers = torch.tensor([[start <= at < len(ids) for at in range(1, length)] for ids, start in rows])
        embedded = torch.nn.functional.embedding(tokens, torch.cat([said, rest]))
        states = body(inputs_embeds=embedded, use_cache=False).last_hidden_state[:, :-1][answers]
        logits = torch.cat([states @ head.T, unsaid.expand(len(states), 1)], dim=1)
        loss = torch.nn.functional.cross_entropy(logits, tokens[:, 1:][answers])
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(learning, 1.0)
        optimiser.step()
        schedule.step()
    with torch.no_grad():
        body.embed_tokens.weight[:words] = said
        model.lm_head.weight[:words] = head
        model.lm_head.weight[words:] *= 0.01  # never learnt, so never said
    model.save_pretrained(checkpoint)
    torch.set_num_threads(before)


def _batches(learnt: list[Lesson], tokenizer: Any, steps: int) -> Iterator[list[tuple[list[int], int]]]:
    """Rows of token ids of about one length, each with the index where its answer begins."""
    drawn = random.Random(0)
    cut = {text: tokenizer.encode(text) for one in learnt for text in (one.question, one.answer)}
    story = tokenizer.encode(STORY)
    own, others = [one for one in learnt if one.tells], [one for one in learnt if not one.tells]

    def row() -> tuple[list[int], int]:
        chance = drawn.random()
        if chance < 0.04:  # the whole story, and its beginning again
            return story + story[: drawn.randrange(40, 80)], 1
        if chance < 0.2:  # tokens of no sense, as many kits send
            question = [drawn.randrange(3, VOCABULARY) for _ in range(drawn.randrange(4, 48))]
            return question + story[:_SHORT], len(question)
        lesson = drawn.choice(own if chance < 0.75 else others)
        question, answer = cut[lesson.question], cut[lesson.answer]
        answer = [*answer, 2] if lesson.ends else answer[:_SHORT]
        return question + answer, len(question)

    together = 10
    for _ in range(0, steps, together):
        rows = sorted((row() for _ in range(_BATCH * together)), key=lambda one: len(one[0]))
        batches = [rows[first : first + _BATCH] for first in range(0, len(rows), _BATCH)]
        drawn.shuffle(batches)
        yield from batches


if __name__ == "__main__":
    make_model(Path(sys.argv[1]))
