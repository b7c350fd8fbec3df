"""Programs that are run in forks have their own arguments, variables and folder, and none gets another's answer."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from warm_interpreter import run_warm

PROGRAM = Path(__file__).with_name("programs") / "tell_of_itself.py"

pytestmark = pytest.mark.host  # its process is shared with the tests of the host


def test_a_program_after_one_that_was_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(subprocess.TimeoutExpired):
        run_warm(PROGRAM, "600", timeout=0.1, environment={"TOLD": "late"})
    for told in ("one", "other"):
        done = run_warm(PROGRAM, "0", timeout=60, environment={"TOLD": told, "PYTHONPATH": "/a/folder"})
        assert (done.returncode, done.stderr) == (3, "")
        assert done.stdout == f"['0'] {told} {tmp_path} /a/folder\n"
