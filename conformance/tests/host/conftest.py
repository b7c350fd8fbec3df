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


@pytest.fixture
def installed_hooks() -> Callable[[Path, str], dict[str, str]]:
    """Installs a distribution whose general plugin is `source`, in a folder; gives the environment that finds it."""

    def install(folder: Path, source: str) -> dict[str, str]:
        info = folder / "my_hooks-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-hooks\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[sglang.srt.plugins]\nmy_hooks = my_hooks:load\n")
        (folder / "my_hooks.py").write_text(source)
        return {"PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))}

    return install
