"""The soak's short form: one server under everything at once for two minutes, and all that must hold of it after."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from sglang_platform.conformance.host.stacks import completed

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]

SOAK = Path(__file__).parents[3] / "benchmarks" / "soak.py"


@pytest.mark.skipif(not SOAK.exists(), reason="benchmarks are not part of this source tree")
def test_a_server_holds_under_everything_at_once(models: Path, tmp_path: Path) -> None:
    done = completed(
        [sys.executable, SOAK, "--minutes", "2", "--clients", "16", "--results", tmp_path],
        env={**os.environ, "SGLANG_PLATFORM_TEST_MODELS": str(models)},
        seconds=1700,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    report = json.loads((tmp_path / "soak.json").read_text())
    assert not report["held"]
    ended = report["ended"]
    for kind in (
        "greedy",
        "stream",
        "bad",
        "bad token",
        "regex",
        "json",
        "quiet flush",
        "weights",
        "abort all",
    ):
        assert ended[kind]["right"] > 0, kind
    assert ended["aborted"]["aborted"] > 0
    assert ended["left"]["left"] > 0
    assert report["right_with_an_adapter"] > 0
    assert (tmp_path / "soak.svg").exists()
