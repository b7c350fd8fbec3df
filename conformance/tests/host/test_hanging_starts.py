"""A start that hangs ends at its limit, says where each of its processes stands, and leaves none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sglang_platform.conformance.guard import descendants
from sglang_platform.conformance.host import diffusion
from sglang_platform.conformance.host.engine import EngineFailed, EngineProcess
from sglang_platform.conformance.host.server import ServerProcess
from sglang_platform.conformance.host.stacks import HangingStart, completed, kill_tree, stacks

HANGING = Path(__file__).with_name("programs") / "hang_with_a_child.py"


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """Of what a test started; what others keep running in this process is theirs."""
    before = descendants(os.getpid()).keys()
    yield
    until = time.monotonic() + 10
    while (left := descendants(os.getpid()).keys() - before) and time.monotonic() < until:
        time.sleep(0.1)
    assert not left


def test_stacks_are_those_of_a_process_and_its_children() -> None:
    process = subprocess.Popen([sys.executable, HANGING], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "child waits\n"
        told = stacks(process.pid)
    finally:
        kill_tree(process.pid)
        process.communicate()
    assert "wait_for_the_child" in told
    assert "wait_for_weights" in told


@pytest.mark.long
def test_a_program_that_hangs_is_ended_with_its_stacks_and_its_words() -> None:
    with pytest.raises(HangingStart) as caught:
        completed([sys.executable, HANGING], seconds=8)
    for part in ("wait_for_the_child", "wait_for_weights", "child waits", "8 s"):
        assert part in str(caught.value)


def test_a_program_that_ends_gives_what_it_printed() -> None:
    done = completed([sys.executable, "-c", "import sys; print(1); sys.exit('two')"], seconds=60)
    assert (done.returncode, done.stdout, done.stderr) == (1, "1\n", "two\n")


@pytest.mark.host
def test_an_engine_that_hangs_while_it_starts_is_ended_with_its_stacks() -> None:
    with pytest.raises(EngineFailed, match="within 2 s") as caught:
        EngineProcess("example_oot", {"model_path": "none"}, seconds=2)
    assert "MainThread" in str(caught.value)


class Limit(Exception):
    """Of a test that starts something."""


@contextmanager
def interrupted_after(seconds: int) -> Iterator[None]:
    """What stands inside is interrupted as a test is by its limit."""

    def interrupt(number: int, frame: object) -> None:
        raise Limit

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(seconds)
    try:
        with pytest.raises(Limit):
            yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.host
def test_an_interrupted_start_shows_its_stacks_and_leaves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with interrupted_after(2):
        EngineProcess("example_oot", {"model_path": "none"})
    assert "MainThread" in capsys.readouterr().err


@pytest.fixture
def waits(tmp_path: Path) -> dict[str, str]:
    """Variables under which there is a module `waits`, which never serves."""
    (tmp_path / "waits.py").write_text(HANGING.read_text())
    return {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}


@pytest.mark.long
def test_a_server_that_does_not_come_up_is_ended_with_its_stacks(waits: dict[str, str]) -> None:
    with pytest.raises(EngineFailed, match="within 6 s") as caught:
        ServerProcess(None, {}, module="waits", defaults={}, environment=waits, seconds=6)
    assert "wait_for_weights" in str(caught.value)


@pytest.mark.long
def test_an_interrupted_start_of_a_server_shows_its_stacks(
    waits: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with interrupted_after(6):
        ServerProcess(None, {}, module="waits", defaults={}, environment=waits)
    assert "wait_for_weights" in capsys.readouterr().err


def test_a_picture_that_is_interrupted_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = tmp_path / "hangs"
    hangs.write_text("#!/bin/sh\nsleep 60\n")
    hangs.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(hangs))
    begun = time.monotonic()
    with interrupted_after(2):
        diffusion.ask_worker({}, dict(os.environ), 60)
    assert time.monotonic() - begun < 30
