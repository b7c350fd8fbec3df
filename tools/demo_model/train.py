"""Train the demo model that `generate` serves: a Llama of about a million parameters, in minutes on a CPU.

    python tools/demo_model/train.py --minutes 12

It writes the checkpoint into the suite's package, where `generate` finds it: bfloat16 weights, a byte-level BPE
tokenizer, and the chat template of the suite's other checkpoints.
"""

from __future__ import annotations

import argparse
import math
import time
from itertools import islice
from typing import Any

import torch
from text import documents, questions
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from sglang_platform.conformance.host.checkpoints import CHAT_TEMPLATE
from sglang_platform.conformance.host.demo_model import FOLDER

VOCABULARY = 768
ROW = 256  # tokens
BATCH = 16  # rows
_RATE = 3e-3


def tokenizer_of_text() -> Any:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<s>", "</s>", "<pad>", "<|system|>", "<|user|>", "<|assistant|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator((f"{q}\n{a}" for q, a in islice(documents(1), 5000)), trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def rows(tokenizer: Any, seed: int) -> Any:
    """Rows of ROW tokens: documents one after the other, cut where a row is full."""
    pending: list[int] = []
    for question, answer in documents(seed):
        text = f"<|user|>\n{question}\n<|assistant|>\n{answer}</s>"
        pending += tokenizer(text)["input_ids"]
        while len(pending) >= ROW:
            yield pending[:ROW]
            pending = pending[ROW:]


def answer_to(model: Any, tokenizer: Any, question: str) -> str:
    text = f"<|user|>\n{question}\n<|assistant|>\n"
    inputs = tokenizer(text, return_tensors="pt")
    ids = model.generate(**inputs, max_new_tokens=160, do_sample=False, pad_token_id=2)
    return str(tokenizer.decode(ids[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=12.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--resume", action="store_true", help="go on from the weights that are there")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    tokenizer = tokenizer_of_text()
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=192, intermediate_size=512, num_hidden_layers=3,
        num_attention_heads=6, num_key_value_heads=2, head_dim=32, max_position_embeddings=2048,
        bos_token_id=0, eos_token_id=1, pad_token_id=2, tie_word_embeddings=True, initializer_range=0.05,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    if options.resume:
        tokenizer = AutoTokenizer.from_pretrained(FOLDER)
        model = LlamaForCausalLM.from_pretrained(FOLDER, dtype=torch.float32)
    optimiser = torch.optim.AdamW(model.parameters(), lr=_RATE, betas=(0.9, 0.95), weight_decay=0.05)
    source, start, step, average = rows(tokenizer, seed=3 if options.resume else 2), time.monotonic(), 0, None
    while (spent := (time.monotonic() - start) / (options.minutes * 60)) < 1:
        warm = min(1.0, (step + 1) / 50)
        for group in optimiser.param_groups:
            group["lr"] = _RATE * warm * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * spent)))
        batch = torch.tensor(list(islice(source, BATCH)))
        loss = model(input_ids=batch, labels=batch).loss
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        average = loss.item() if average is None else 0.98 * average + 0.02 * loss.item()
        step += 1
        if step % 50 == 0:
            print(f"{spent:4.0%} step {step}: loss {average:.3f}", flush=True)
    model = model.bfloat16()
    FOLDER.mkdir(exist_ok=True)
    model.save_pretrained(FOLDER)
    tokenizer.save_pretrained(FOLDER)
    (FOLDER / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    model = model.float().eval()
    for question in [*questions()[::9], "Tell me a story about a fox and a lantern.", "What is the sea?"]:
        print(f"\n{question}\n  {answer_to(model, tokenizer, question)}")


if __name__ == "__main__":
    main()
