from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def models() -> Path:
    """Checkpoints are made once and kept across runs, with the references beside them."""
    return Path(os.environ.get("SGLANG_PLATFORM_TEST_MODELS", "models")).resolve()


@pytest.fixture
def served_by_the_platform() -> Callable[[dict[str, int]], None]:
    """Asserts of an engine's counters that the example's pool and graphs served, and nothing of SGLang's instead."""

    def check(counts: dict[str, int]) -> None:
        assert counts["example_oot.kv_pool.stores"] > 0
        assert counts["example_oot.graph.replays"] > 0
        theirs = ("host.attention.calls", "host.kv_pool.stores", "host.graph.replays")
        assert {name: counts[name] for name in theirs} == dict.fromkeys(theirs, 0)

    return check
