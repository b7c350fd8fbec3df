"""For all tests of core."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

RunProgram = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run_program(request: pytest.FixtureRequest) -> RunProgram:
    """Run a file of `programs/`, beside the test, in a process of its own: ``run_program("name.py", *arguments)``.

    It has this process's environment and folder, so that `monkeypatch` prepares them. A program that fails fails the
    test, unless `may_fail`.
    """
    programs = request.path.parent / "programs"

    def run(name: str, *arguments: str, may_fail: bool = False) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, str(programs / name), *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert may_fail or done.returncode == 0, done.stdout + done.stderr
        return done

    return run
