"""Launch wrappers under a driver without a device: real compilation, real refusals, nothing executed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "launches_without_a_device.py"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("triton")


def test_wrappers_compile_and_are_refused_as_on_a_device(cache: Path) -> None:
    """In a process of its own: a process that compiles must not have met the interpreter."""
    environment = {**os.environ, "TRITON_CACHE_DIR": str(cache)}
    environment.pop("TRITON_INTERPRET", None)
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "all seen", done.stderr[-3000:]
