"""Models that answer with numbers: embeddings and rewards, and what transformers gives for them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.kept_folder import kept_folder

__all__ = ["embedding", "largest_difference", "make_reward_checkpoint", "scores"]


def make_reward_checkpoint(folder: Path) -> Path:
    """A Llama with one score per sequence in place of its vocabulary; one that is there already is kept."""
    return kept_folder(folder, "three labels, seed 7", _write_reward)


def _write_reward(folder: Path) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForSequenceClassification

    make_checkpoint(folder, "llama", seed=7)
    config = AutoConfig.from_pretrained(folder)
    config.num_labels = 3
    torch.manual_seed(7)
    model = AutoModelForSequenceClassification.from_config(config, dtype=torch.float32)
    model.save_pretrained(folder)


def embedding(checkpoint: Path, prompt: Sequence[int]) -> list[float]:
    """The hidden state of the last token after the final norm, of length 1 (Euclidean)."""
    import torch

    with torch.no_grad():
        hidden = _model(checkpoint, "AutoModel")(torch.tensor([list(prompt)])).last_hidden_state[0, -1]
    return torch.nn.functional.normalize(hidden, dim=0).tolist()  # type: ignore[no-any-return]


def scores(checkpoint: Path, prompt: Sequence[int]) -> list[float]:
    """The scores of the last token."""
    import torch

    model = _model(checkpoint, "AutoModelForSequenceClassification")
    with torch.no_grad():
        return model(torch.tensor([list(prompt)])).logits[0].tolist()  # type: ignore[no-any-return]


def largest_difference(got: Sequence[float], wanted: Sequence[float]) -> float:
    """Between two lists of one length, relative to the largest wanted value; infinite where the lengths differ."""
    if len(got) != len(wanted):
        return float("inf")
    largest = max(map(abs, wanted))
    return max(abs(a - b) for a, b in zip(got, wanted, strict=True)) / largest


@lru_cache(maxsize=1)
def _model(checkpoint: Path, kind: str) -> Any:
    import torch
    import transformers

    return getattr(transformers, kind).from_pretrained(checkpoint, dtype=torch.float32).eval()
