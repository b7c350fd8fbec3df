"""A run that is cut off: what was done is in a report or is gone on with, and no process is left."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import FACTORIES, NAMED, conformance, variables

from sglang_platform.conformance.report.files import read_report
from sglang_platform.conformance.report.verify import problems_of

_CHECKS = ("contract.identity_agrees_with_enum", NAMED, "contract.declarations_are_understood", FACTORIES)
"""In the order in which they are run; the last takes as long as it is told."""

_WORDS = ["--platform", "slow=slow_platform:Slow", *(w for name in _CHECKS for w in ("--check", name))]
Cut = Callable[[int], tuple[int, str]]


@pytest.fixture
def cut(tmp_path: Path) -> Cut:
    """Begins the run with a report in `out`, sends a signal in the last check, answers with status and output."""

    def run(number: int) -> tuple[int, str]:
        pids = tmp_path / "pids"
        words = [sys.executable, "-m", "sglang_platform.conformance", *_WORDS, "--report", "out"]
        process = subprocess.Popen(
            words,
            env={**variables(), "SLOW_SECONDS": "500", "SLOW_PIDS": str(pids)},
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # a job ignores it
        )
        until = time.monotonic() + 180
        while not (pids.exists() and len(pids.read_text().split()) >= 2) and time.monotonic() < until:
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.2)
        while len(_done(tmp_path)) < len(_CHECKS) - 1 and time.monotonic() < until:
            time.sleep(0.2)
        process.send_signal(number)
        said = process.communicate(timeout=120)[0]
        left = [pid for pid in map(int, pids.read_text().split()) if _lives(pid, 20)]
        assert left == []
        return process.returncode, said

    return run


def _done(folder: Path) -> list[str]:
    file = folder / "out" / "unfinished.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return [line for line in lines if '"outcome"' in line]


def _lives(pid: int, seconds: float) -> bool:
    """Whether a process is there still after so long; of one that ended a zombie may be left for its parent."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return False
        except OSError:
            return False
        time.sleep(0.1)
    return True


def _by_id(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["id"]: one for one in document["outcomes"]}


@pytest.mark.long
@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, signal.SIGTERM, signal.SIGHUP],
)
def test_a_signal_ends_the_run_with_a_report_that_says_so(cut: Cut, tmp_path: Path, number: int) -> None:
    status, said = cut(number)
    name = signal.Signals(number).name
    assert status == 3, said
    assert "Traceback" not in said
    document = read_report(tmp_path / "out" / "report.json")
    assert document["verdict"]["word"] == "incomplete"
    assert "1 interrupted" in document["verdict"]["headline"]
    found = _by_id(document)
    assert [found[one]["status"] for one in _CHECKS] == ["passed", "passed", "passed", "not_run"]
    assert found[FACTORIES]["why"] == f"the run was ended by {name} before it"
    assert problems_of(document) == [one for one in problems_of(document) if "which files" in one]


@pytest.mark.long
def test_a_run_that_was_killed_goes_on_where_it_was(cut: Cut, tmp_path: Path) -> None:
    status, _ = cut(signal.SIGKILL)
    assert status == -signal.SIGKILL
    assert not (tmp_path / "out" / "report.json").exists()
    log = tmp_path / "out" / "unfinished.jsonl"
    before = [json.loads(line)["outcome"] for line in _done(tmp_path)]
    assert len(before) == len(_CHECKS) - 1
    log.write_text(log.read_text() + '{"outcome": {"id": "contract.fact')  # cut off in the middle of a line
    other = conformance(*_WORDS, "--report", "out", "--resume", "--seed", "5", folder=tmp_path)
    assert (other.returncode, "--seed was 0, and is 5" in other.stderr) == (2, True), other.stderr
    assert "leave --resume out" in other.stderr
    resumed = conformance(*_WORDS, "--report", "out", "--resume", folder=tmp_path)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    document = read_report(tmp_path / "out" / "report.json")
    assert [one["status"] for one in document["outcomes"]] == ["passed"] * len(_CHECKS)
    assert document["run"]["sittings"] == 2
    assert "--resume" not in document["run"]["command"]
    assert document["outcomes"][:-1] == before  # what was done is not done again
    assert not log.exists()
    again = conformance(*_WORDS, "--report", "out", "--resume", folder=tmp_path)
    assert (again.returncode, "it was finished, or none was begun" in again.stderr) == (2, True), again.stderr


@pytest.mark.long
def test_what_a_signal_cut_off_can_be_gone_on_with(cut: Cut, tmp_path: Path) -> None:
    cut(signal.SIGTERM)
    resumed = conformance(*_WORDS, "--report", "out", "--resume", folder=tmp_path)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    document = json.loads((tmp_path / "out" / "report.json").read_text())
    assert _by_id(document)[FACTORIES]["status"] == "passed"
    assert "interrupted" not in document["verdict"]["headline"]
