"""The command where a shell is not as it mostly is: output closed or full, the folder gone, ASCII alone, no home."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
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


@pytest.mark.parametrize(
    "words", ["info", "list", "list --explain", "list --json", "doctor --source-only", "host ops", "--help"]
)
def test_output_whose_reader_goes_away(words: str, tmp_path: Path) -> None:
    """As a shell counts a program that SIGPIPE ends. A stage is told past two seconds, as on a busy machine."""
    done = shell(f'("$@" {words}; echo $? >status) | true; cat status', tmp_path)
    assert done.stdout.strip() == "141"
    assert all(line.endswith(" ...") for line in done.stderr.splitlines()), done.stderr


@pytest.mark.sample(2)
@pytest.mark.parametrize("words", ["host assumptions", "hooks check --host installed"])
def test_ctrl_c(words: str, tmp_path: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, *words.split()],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # a job ignores it
    ) as process:
        time.sleep(1)  # by then Python has begun with the command; each takes several
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors


@pytest.mark.parametrize("after", ["time.sleep(60)", "pass"])
def test_ctrl_c_while_torch_is_imported(after: str, tmp_path: Path) -> None:
    """One that loses it, as the C++ code of torch that imports numpy does."""
    (tmp_path / "torch.py").write_text(
        "import contextlib, os, signal\n"
        "with contextlib.suppress(BaseException):\n    os.kill(os.getpid(), signal.SIGINT)\n"
    )
    script = (
        "import signal, time; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"from sglang_platform.core.cli import ends_quietly\nwith ends_quietly():\n    import torch; {after}\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, timeout=50, check=False)
    assert done.returncode == 130


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


def test_a_terminal_that_lacks_characters(tmp_path: Path) -> None:
    terminal = f"{sys.executable} -c 'import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)'"
    done = shell(f'{terminal} "$@" list --explain', tmp_path, TERM="dumb", PYTHONIOENCODING="latin-1")
    assert done.returncode == 0, done.stdout
    assert "could not finish" not in done.stdout


@pytest.mark.parametrize("closed", ["2>&-", ">&- 2>&-", "<&- >&- 2>&-", "2>/dev/full"])
def test_streams_that_are_closed(closed: str, tmp_path: Path) -> None:
    assert shell(f'"$@" list {closed}', tmp_path).returncode == 0
    assert shell(f'"$@" no-such-command {closed}', tmp_path).returncode in (2, 3)


def test_names_of_thousands_of_letters(tmp_path: Path) -> None:
    name = "x" * 5000
    for words in (name, f"check {name}", f"hooks check --host {name}", f"new {name}"):
        assert shell(f'"$@" {words}', tmp_path).returncode in (1, 2), words
    assert shell(f'SGLANG_PLATFORM={name} "$@" list', tmp_path).returncode in (0, 1)


def test_a_copy_where_nobody_may_write(tmp_path: Path) -> None:
    done = shell('"$@" new acme-npu --dir /proc/acme', tmp_path)
    assert done.returncode == 1
    assert "/proc/acme cannot be written" in done.stderr
