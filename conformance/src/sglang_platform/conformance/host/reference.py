"""What Hugging Face transformers answers: the reference for token equality. Shares no code with any platform."""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from sglang_platform.conformance.host.architectures import VOCABULARY

__all__ = [
    "TOLERANCES",
    "gaps",
    "greedy",
    "greedy_with_penalty",
    "hidden_states",
    "likeliest",
    "logprobs",
    "prompts",
    "ranks",
]

TOLERANCES = {"bfloat16": 0.25, "float16": 0.05}
"""By how many standard deviations of its step's logits a token chosen in a short type may lie below the largest."""

_FIRST_ORDINARY_TOKEN = 8


def prompts(lengths: Sequence[int], *, seed: int = 0, shared_prefix: int = 0) -> list[list[int]]:
    """Random prompts of the given lengths in tokens, the first `shared_prefix` tokens the same in all."""
    source = random.Random(seed)

    def tokens(n: int) -> list[int]:
        return [source.randrange(_FIRST_ORDINARY_TOKEN, VOCABULARY) for _ in range(n)]

    prefix = tokens(shared_prefix)
    return [prefix[:length] + tokens(length - min(length, shared_prefix)) for length in lengths]


def greedy(checkpoint: Path, asked: Sequence[list[int]], new_tokens: int) -> list[list[int]]:
    """The greedy continuation of each prompt by `new_tokens` tokens, in float32, one prompt at a time.

    The token that ends a text is one like the others, as it is to SGLang under `ignore_eos`. Kept beside the
    checkpoint, so that a matrix of engines computes it once.
    """
    key = hashlib.sha256(json.dumps(["ends are ignored", asked, new_tokens]).encode()).hexdigest()[:16]
    kept = checkpoint / f"reference-{key}.json"
    if kept.exists():
        return json.loads(kept.read_text())  # type: ignore[no-any-return]
    import torch

    model = _model(checkpoint)
    answers = []
    for prompt in asked:
        with torch.no_grad():
            output = model.generate(
                torch.tensor([prompt]),
                attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                do_sample=False,
                max_new_tokens=new_tokens,
            )
        answers.append(output[0, len(prompt) :].tolist())
    new = kept.with_suffix(f".{os.getpid()}")
    new.write_text(json.dumps(answers))
    new.replace(kept)  # another process that reads it finds all of it, or nothing
    return answers


def gaps(checkpoint: Path, prompt: list[int], output: list[int]) -> list[float]:
    """For each token of `output`: how far its logit lies below the largest of its step, in float32, in standard
    deviations of that step's logits. 0 where it is what greedy decoding takes."""
    import torch

    model = _model(checkpoint)
    with torch.no_grad():
        logits = model(torch.tensor([prompt + output])).logits[0, len(prompt) - 1 : -1]
    chosen = logits.gather(1, torch.tensor(output)[:, None])[:, 0]
    found: list[float] = ((logits.max(dim=1).values - chosen) / logits.std(dim=1)).tolist()
    return found


def ranks(checkpoint: Path, prompt: list[int], output: list[int]) -> list[int]:
    """For each token of `output`: how many tokens of its step have a larger logit."""
    logits = _logits(checkpoint, prompt + output)[len(prompt) - 1 : -1]
    return [int((row > row[token]).sum()) for row, token in zip(logits, output, strict=True)]


def logprobs(checkpoint: Path, tokens: list[int]) -> list[float]:
    """The log probability of each token but the first, given those before it."""
    import torch

    found = torch.log_softmax(_logits(checkpoint, tokens)[:-1], dim=1)
    return [float(row[token]) for row, token in zip(found, tokens[1:], strict=True)]


def likeliest(checkpoint: Path, tokens: list[int], count: int) -> list[list[int]]:
    """For each token but the last: the tokens that are likeliest after it, the likeliest first."""
    return _logits(checkpoint, tokens)[:-1].topk(count, dim=1).indices.tolist()  # type: ignore[no-any-return]


def hidden_states(checkpoint: Path, tokens: list[int]) -> list[list[float]]:
    """The hidden states after the final norm, one row per token."""
    import torch

    with torch.no_grad():
        return _model(checkpoint).model(torch.tensor([tokens])).last_hidden_state[0].tolist()  # type: ignore[no-any-return]


def greedy_with_penalty(
    checkpoint: Path,
    prompt: list[int],
    new_tokens: int,
    *,
    frequency_penalty: float = 0.0,
    presence_penalty: float = 0.0,
    repetition_penalty: float = 1.0,
) -> list[int]:
    """Greedy tokens under the penalties as OpenAI defines the first two, and Keskar et al. (2019) the third.

    All count the answer's tokens alone, as SGLang does."""
    answer: list[int] = []
    for _ in range(new_tokens):
        logits = _logits(checkpoint, prompt + answer)[-1].clone()
        for token in set(answer):
            logits[token] *= 1 / repetition_penalty if logits[token] > 0 else repetition_penalty
        for token in set(answer):
            logits[token] -= answer.count(token) * frequency_penalty + presence_penalty
        answer.append(int(logits.argmax()))
    return answer


def _logits(checkpoint: Path, tokens: list[int]) -> Any:
    import torch

    with torch.no_grad():
        return _model(checkpoint)(torch.tensor([tokens])).logits[0]


@lru_cache(maxsize=1)
def _model(checkpoint: Path) -> Any:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    config = AutoConfig.from_pretrained(checkpoint)
    # Torch's own attention knows no cap of the logits: transformers leaves it out in silence.
    written_out = {"attn_implementation": "eager"} if getattr(config, "attn_logit_softcapping", None) else {}
    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32, **written_out).eval()
    model.generation_config.eos_token_id = None
    return model
