"""The command where a shell is not as it mostly is: output closed or full, the folder gone, ASCII alone, no home."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-c", "from sglang_platform.core.cli import main; main()"]


def shell(script: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """`script` in a shell, where "$@" is the command."""
    done = subprocess.run(
        ["sh", "-c", script, "sh", *COMMAND],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert "Exception ignored" not in done.stderr, done.stderr
    return done


@pytest.mark.parametrize("words", ["info", "list", "list --json", "hooks report", "--help"])
def test_output_that_is_closed(words: str, tmp_path: Path) -> None:
    open_one, closed = (shell(f'"$@" {words} {end}', tmp_path) for end in ("", ">&-"))
    assert closed.returncode == open_one.returncode == 0, closed.stderr
    assert "could not finish" not in closed.stderr


def test_output_that_takes_no_more(tmp_path: Path) -> None:
    done = shell('"$@" list >/dev/full', tmp_path)
    assert done.returncode == 3
    assert "No space left on device" in done.stderr
    assert "fix:    make room" in done.stderr


def test_a_folder_that_was_removed(tmp_path: Path) -> None:
    gone = 'mkdir gone && cd gone && rmdir ../gone && "$@"'
    assert shell(f"{gone} list", tmp_path).returncode == 0
    done = shell(f"{gone} check .", tmp_path)
    assert done.returncode == 3
    assert "the folder that this shell is in was removed" in done.stderr


def test_a_terminal_of_ascii_and_no_home(tmp_path: Path) -> None:
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "HOME": "/proc", "COLUMNS": "abc"}
    for words in ("list --explain", "--help", "doctor --source-only"):
        assert shell(f'"$@" {words}', tmp_path, **plain).returncode == 0


def test_a_copy_where_nobody_may_write(tmp_path: Path) -> None:
    done = shell('"$@" new acme-npu --dir /proc/acme', tmp_path)
    assert done.returncode == 1
    assert "/proc/acme cannot be written" in done.stderr
