"""A model whose layers ask core's attention for what it does not compute is refused when it is built."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.host


def test_layers_that_cores_attention_does_not_compute_are_refused_by_name(
    run_program: Callable[..., Any],
) -> None:
    said = json.loads(run_program("refuse_layers.py", timeout=300).stdout.splitlines()[-1])
    named = {
        "cross-attention": "is_cross_attention",
        "chunks": "use_irope",
        "temperature": "xai_temperature_len=1024",
        "positions": "pos_encoding_mode=ALIBI",
        "another cap": "logit_capping_method=sigmoid",
    }
    for case, words in said.items():
        backend, _, constant = case.partition(": ")
        refused = backend in ("core", "own") and constant in named
        assert bool(words) == refused, case
        if refused:
            assert f"its layer attn asks for {named[constant]}" in words
            assert "the platform 'acme'" in words
