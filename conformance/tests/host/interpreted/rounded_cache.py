"""What transformers answers where keys and values are kept in 8 bits: the reference for a cache of 8-bit floats."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, DynamicCache


class _RoundedCache(DynamicCache):
    """Every key and value goes through e4m3 before it is attended to, those of the prompt too."""

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        kept = [states.to(torch.float8_e4m3fn).to(states.dtype) for states in (key_states, value_states)]
        return super().update(*kept, *args, **kwargs)


def greedy(checkpoint: Path, prompts: Sequence[list[int]], new_tokens: int) -> list[list[int]]:
    """The greedy continuation of each prompt by `new_tokens` tokens, all else in float32."""
    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).eval()
    model.generation_config.eos_token_id = None
    answers = []
    for prompt in prompts:
        with torch.no_grad():
            output = model.generate(
                torch.tensor([prompt]),
                attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                past_key_values=_RoundedCache(),
                do_sample=False,
                max_new_tokens=new_tokens,
            )
        answers.append(output[0, len(prompt) :].tolist())
    return answers
