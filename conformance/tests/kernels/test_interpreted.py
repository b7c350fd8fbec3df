"""The interpreter's own tests, in a process of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from sglang_platform.conformance.kernels.interpreter.process import run_tests


@pytest.mark.parametrize(
    "file",
    [
        "test_number_formats.py",
        "test_watched_accesses.py",
        "test_attention_kernels.py",
        "test_attention_backend.py",
    ],
)
def test_in_the_interpreter(file: str) -> None:
    run_tests(Path(__file__).parent / "interpreted" / file)
