"""Models that answer with something else than text, or are asked with something else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sglang_platform.conformance.check import expect
from sglang_platform.conformance.host import pooled, reference
from sglang_platform.conformance.host.features.record import EngineLaunch, feature
from sglang_platform.conformance.host.features.running import Running
from sglang_platform.conformance.host.vision_checkpoint import (
    PROMPT,
    answer,
    make_pictures,
    make_vision_checkpoint,
)

__all__: list[str] = []

_GROUP = "Models"
_LENGTHS = (5, 64, 300, 17)
_NEW_TOKENS = 16
_LARGEST_ERROR = 1e-3


def _vision(models: Path) -> Mapping[str, Any]:
    return {"model_path": str(make_vision_checkpoint(models / "qwen2_vl")), "enable_multimodal": True}


def _reward(models: Path) -> Mapping[str, Any]:
    return {"model_path": str(pooled.make_reward_checkpoint(models / "llama-reward")), "is_embedding": True}


def _values_are_right(run: Running, wanted: Any) -> None:
    prompts = reference.prompts(_LENGTHS, seed=6)
    for asked in ([prompts[0]], prompts):
        got = run.engine.call("encode", input_ids=asked)
        for prompt, values in zip(asked, got, strict=True):
            error = pooled.largest_difference(values, wanted(run.checkpoint, prompt))
            expect(
                error <= _LARGEST_ERROR,
                f"a prompt of {len(prompt)} tokens in a batch of {len(asked)}: the values differ by {error:.2g} from "
                "those of transformers, relative to the largest",
            )


@feature(
    group=_GROUP,
    title="embeddings",
    launch=EngineLaunch("embedding", {"is_embedding": True}),
    fix="look at extend without decode: the last token of each prompt must have its hidden state",
)
def embeddings(run: Running) -> None:
    """The embedding of a prompt is the normalised last hidden state that transformers gives, alone and in a batch."""
    _values_are_right(run, pooled.embedding)


@feature(
    group=_GROUP,
    title="a reward model",
    launch=EngineLaunch("reward", prepare=_reward),
    fix="look at extend without decode: the last token of each prompt must have its hidden state",
)
def reward_model(run: Running) -> None:
    """The scores of a reward model are those of transformers, alone and in a batch."""
    _values_are_right(run, pooled.scores)


@feature(
    group=_GROUP,
    title="a vision language model (Qwen2-VL)",
    launch=EngineLaunch("vision", prepare=_vision),
    fix="look at the rotary embedding with positions in three axes, and at `mrope_positions` among a graph's inputs",
)
def vision_language_model(run: Running) -> None:
    """Prompts with pictures of different sizes give the tokens of transformers, one by one and together."""
    pictures = make_pictures(run.checkpoint)
    wanted = [answer(run.checkpoint, picture, _NEW_TOKENS) for picture in pictures]
    for chosen in (*([index] for index in range(len(pictures))), list(range(len(pictures)))):
        got = run.engine.call(
            "generate_with_pictures",
            prompts=[PROMPT] * len(chosen),
            pictures=[str(pictures[index]) for index in chosen],
            max_new_tokens=_NEW_TOKENS,
        )
        for index, tokens in zip(chosen, got, strict=True):
            expect(
                tokens == wanted[index],
                f"picture {index}, asked with {len(chosen) - 1} others: the tokens are {tokens}, and transformers "
                f"gives {wanted[index]}",
            )
