"""A plugin on SGLang's own classes that starts slowly, hangs, ends the process or has a broken general plugin.

It is told once, the rest goes on, and the run takes minutes.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from installed_plugin import Edit, InstalledPlugin

pytestmark = [
    pytest.mark.engine,
    pytest.mark.host,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        "SGLANG_PLATFORM_LONG" not in os.environ, reason="minutes each: nox -s foreign_starts"
    ),
]

CREATED = "contract.platform_is_created"
_LEVELS = ("--level", "packaging", "--level", "contract", "--level", "memory")
_PLATFORM, _IMPORT = "sglang_dolomite/platform.py", "from .mixins import"
_LONGEST = 600
"""Seconds that a run may take."""


def before_the_class(statement: str) -> Edit:
    """Run a statement when the platform's module is imported."""
    return Edit(_PLATFORM, _IMPORT, f"import os, time\n\n{statement}\n\n{_IMPORT}")


class Run(NamedTuple):
    seconds: float
    checks: dict[str, dict[str, Any]]
    text: str

    def counts(self) -> Counter[str]:
        return Counter(one["status"] for one in self.checks.values())

    def why(self) -> set[str]:
        return {one["why"] for one in self.checks.values() if one["status"] == "blocked"}

    def ended_so(self, words: str) -> list[str]:
        """The checks that tell that the process ended so."""
        return [name for name, one in self.checks.items() if words in (one.get("what") or "")]


def conformance(folder: Path, *edits: Edit, levels: Sequence[str] = _LEVELS) -> Run:
    """The levels that need no engine, on Dolomite with these edits, in SGLang."""
    plugin = InstalledPlugin("dolomite", folder)
    plugin.edit(*edits)
    began = time.monotonic()
    done = plugin.command(
        "conformance", "--platform", "dolomite", "--host", "sglang", *levels, "--report", str(folder / "report"),
        timeout=_LONGEST + 200, OMP_NUM_THREADS="1",
    )  # fmt: skip
    seconds = time.monotonic() - began
    report = folder / "report" / "report.json"
    assert report.is_file(), done.stdout + done.stderr
    checks = {one["id"]: one for one in json.loads(report.read_text())["outcomes"]}
    return Run(seconds, checks, done.stdout)


@pytest.mark.parametrize(
    ("statement", "failure", "words"),
    [
        ("os._exit(3)", "crash", "ended with status 3 while the platform was made"),
        ("time.sleep(3600)", "timeout", "while the platform was made"),
    ],
    ids=["exits at import", "hangs at import"],
)
def test_a_start_that_fails_is_told_once(tmp_path: Path, statement: str, failure: str, words: str) -> None:
    run = conformance(tmp_path, before_the_class(statement))
    assert run.seconds < _LONGEST
    assert run.checks[CREATED]["failure"] == failure
    assert run.ended_so(words) == [CREATED]
    assert [name for name, one in run.checks.items() if one["failure"] in ("crash", "timeout")] == [CREATED]
    assert run.why() == {f"the platform does not start: see {CREATED}"}
    assert run.counts()["blocked"] > 50
    assert run.counts()["passed"] > 10  # what needs no start went on


def test_a_slow_start_is_waited_for(tmp_path: Path) -> None:
    run = conformance(tmp_path, before_the_class("time.sleep(20)"))
    assert run.seconds < _LONGEST
    assert run.checks[CREATED]["status"] == "passed"
    assert run.counts()["blocked"] == 0
    assert run.counts()["passed"] > 40


def test_a_broken_general_plugin_of_its_own_is_told_once(tmp_path: Path) -> None:
    group = '[project.entry-points."sglang.srt.platforms"]'
    entry = '[project.entry-points."sglang.srt.plugins"]\ntrace = "sglang_dolomite.trace:register"\n\n'
    raises = "def register():\n    raise RuntimeError('the tracer needs its daemon')\n"
    run = conformance(
        tmp_path,
        Edit("pyproject.toml", group, entry + group),
        Edit("sglang_dolomite/trace.py", "", raises),
        levels=("--level", "packaging", "--level", "processes"),
    )
    assert run.seconds < _LONGEST
    assert run.ended_so("the tracer needs its daemon") == ["processes.hooks_are_in_every_process"], run.text
    assert run.counts()["blocked"] == 0
    assert run.counts()["passed"] > 10
