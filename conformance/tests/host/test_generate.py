"""`generate` prints what transformers answers for the demo model, wrapped for the terminal, and then the proof."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglang_platform.conformance.host.demo_model import FOLDER
from sglang_platform.conformance.host.word_wrap import WordWrap

_PROMPTS = ("What is a KV cache?", "Tell me a story about a fox.", "What is the price of a tram?")


@pytest.mark.engine
@pytest.mark.timeout(1200)
def test_the_demo_answers_as_transformers_does(tmp_path: Path) -> None:
    words = [word for prompt in _PROMPTS for word in ("--prompt", prompt)]
    done = subprocess.run(
        [sys.executable, "-m", "sglang_platform.conformance.host.generate", *words],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "proved" in done.stdout
    printed = " ".join(done.stdout.split())
    for prompt in _PROMPTS:
        assert f"> {prompt} {_answer(prompt)}" in printed
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_the_demo_model_is_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 5_000_000


@given(text=st.text(alphabet="ab \n"), cuts=st.lists(st.integers(1, 5)), width=st.integers(4, 20))
def test_text_in_pieces_is_wrapped_between_words(text: str, cuts: list[int], width: int) -> None:
    file = io.StringIO()
    lines = WordWrap(file, width=width, indent="  ")
    rest = text
    for cut in cuts:
        lines.write(rest[:cut])
        rest = rest[cut:]
    lines.write(rest)
    lines.end()
    assert file.getvalue().split() == text.split()
    for line in file.getvalue().splitlines():
        assert len(line) <= width or len(line.split()) == 1
        assert not line or line.startswith("  ")


def test_control_characters_of_an_answer_do_not_reach_the_terminal() -> None:
    file = io.StringIO()
    lines = WordWrap(file, width=20)
    lines.write("a\x1b[31mb \ud800")
    lines.end()
    assert file.getvalue() == "a\\x1b[31mb \\ud800\n"


def _answer(prompt: str) -> str:
    """The greedy answer in float32, its words joined by single spaces."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(FOLDER)
    model = AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32)
    message = [{"role": "user", "content": prompt}]
    asked = tokenizer.apply_chat_template(message, add_generation_prompt=True, return_tensors="pt")
    output = model.generate(**asked, max_new_tokens=128, do_sample=False)
    text = tokenizer.decode(output[0, asked["input_ids"].shape[1] :], skip_special_tokens=True)
    return " ".join(text.split())
