"""A vendor's accelerator with parts of its own and twenty defects: only what the suite prints is done, in its order.

Each round installs the project, runs the whole suite without SGLang, and goes down the causes that are printed. The
first must be one that the vendor repairs, by the words of its fix. Further down, what does not have these words yet is
a consequence of something above it, and is told again in the next round. In the end nothing fails.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from fixes_of_my_accelerator import REPAIRS, Repair

from sglang_platform.conformance.case_ids import case_id, full_id
from sglang_platform.conformance.report.causes import by_cause

PROJECT = Path(__file__).parent / "my_accelerator"
_ROUNDS = 10


def _apply(project: Path, repair: Repair) -> None:
    for file, old, new in repair.edits:
        text = (project / file).read_text()
        assert old in text, (repair.check, file, old)
        (project / file).write_text(text.replace(old, new))


def _conformance(project: Path, folder: Path) -> tuple[int, str, list[dict[str, Any]]]:
    """Exit status, what is printed, and the outcomes."""
    site = folder / "site"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "--target",
        str(site),
    ]
    subprocess.run([*pip, str(project)], check=True, capture_output=True)
    shutil.rmtree(project / "build", ignore_errors=True)
    variables = {name: value for name, value in os.environ.items() if not name.startswith("SGLANG_PLATFORM")}
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    words = ["--platform", "my_accelerator", "--host", "none", "--report", str(folder / "report")]
    run = subprocess.run(
        [sys.executable, "-m", "sglang_platform.conformance", *words],
        env={**variables, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": "200"},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return run.returncode, run.stdout, json.loads((folder / "report" / "report.json").read_text())["outcomes"]


def _named(one: Mapping[str, Any]) -> str:
    """The check, and the row of its table."""
    case = one["case"] or {}
    return full_id(one["id"], case_id(case) if case.keys() == {"row"} else "")


def test_the_repairs_are_of_the_project_as_it_stands(tmp_path: Path) -> None:
    project = tmp_path / "my-accelerator"
    shutil.copytree(PROJECT, project)
    for repair in REPAIRS:
        _apply(project, repair)
    for file in project.rglob("*.py"):
        compile(file.read_text(), str(file), "exec")
    assert len(REPAIRS) == 20
    assert len({one.check for one in REPAIRS}) == 20
    assert len({one.kind for one in REPAIRS}) >= 10


@pytest.mark.timeout(7200)
@pytest.mark.skipif(
    "SGLANG_PLATFORM_LONG" not in os.environ,
    reason="the whole suite several times, minutes each: SGLANG_PLATFORM_LONG=1",
)
def test_the_printed_fixes_alone_turn_an_accelerator_with_twenty_defects_green(tmp_path: Path) -> None:
    project = tmp_path / "my-accelerator"
    shutil.copytree(PROJECT, project)
    done: list[str] = []
    for number in range(_ROUNDS):
        folder = tmp_path / str(number)
        folder.mkdir()
        status, printed, outcomes = _conformance(project, folder)
        failed = [cause.first for cause in by_cause(outcomes)]
        if not failed:
            break
        left = {one.check: one for one in REPAIRS if one.check not in done}
        assert _named(failed[0]) in left, printed  # a fix that was followed made its check pass
        for one in failed:
            repair = left.get(_named(one))
            missing = [words for words in repair.words if words not in one["fix"]] if repair else ["a repair"]
            assert one is not failed[0] or not missing, (one["id"], missing, one["fix"])
            # Lines break.
            is_printed = " ".join(one["fix"].splitlines()[0].split()) in " ".join(printed.split())
            assert one is not failed[0] or is_printed
            if repair and not missing and is_printed:
                _apply(project, repair)
                done.append(repair.check)
    assert sorted(done) == sorted(one.check for one in REPAIRS)
    assert "not conformant" not in printed
    assert [one["id"] for one in outcomes if one["status"] in ("failed", "blocked")] == []
    assert status == 0, printed
