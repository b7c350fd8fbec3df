"""Starts the tests of `interpreted/`: pools, allocator and ops launching their kernels in Triton's interpreter."""

from __future__ import annotations

from pathlib import Path

import pytest


def test_the_parts_on_their_kernels() -> None:
    process = pytest.importorskip(
        "sglang_platform.conformance.kernels.interpreter.process", reason="the suite is not installed"
    )
    process.run_tests(Path(__file__).parent / "interpreted", timeout=300)
