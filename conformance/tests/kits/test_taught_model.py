"""The kits' model: the same weights each time, kept while its lessons are the same."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from sglang_platform.conformance.kits.model import VOCABULARY, make_model

pytestmark = [
    pytest.mark.host,  # the kits are looked for as submodules, for which SGLang is imported
    pytest.mark.skipif(find_spec("sglang") is None, reason="SGLang is not installed"),
]


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    from transformers import AutoModelForCausalLM

    return dict(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).state_dict())


@pytest.mark.long
def test_teaching_twice_gives_the_same_weights_and_a_model_is_kept(tmp_path: Path) -> None:
    first, second = make_model(tmp_path / "first", steps=20), make_model(tmp_path / "second", steps=20)
    one, other = _weights(first), _weights(second)
    assert all(torch.equal(one[name], other[name]) for name in one)
    made = (first / "model.safetensors").stat().st_mtime_ns
    make_model(first, steps=20)
    assert (first / "model.safetensors").stat().st_mtime_ns == made
    make_model(first, steps=30)
    assert any(not torch.equal(one[name], value) for name, value in _weights(first).items())


def test_every_token_decodes_and_the_end_is_token_two(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(make_model(tmp_path / "model", steps=20))
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id) == (0, 2)
    assert len(tokenizer) == VOCABULARY
    assert all(tokenizer.decode([token]) for token in range(VOCABULARY))
    text = "What is the capital of France?\n"
    assert tokenizer.decode(tokenizer.encode(text)) == text
