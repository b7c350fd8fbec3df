"""A step of `nox -s newest` that was cut off, or ran nothing, has not passed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sglang_platform.core.errors import ConfigurationError
from tools.versions.newest import require_run

RAN = {"id": "kits.one", "status": "passed", "cause": None}
UNSELECTED = {"id": "kits.router", "status": "not_run", "cause": "requirement"}
CUT_OFF = {"id": "kits.two", "status": "not_run", "cause": "interrupted"}


def _report(folder: Path, *outcomes: dict[str, Any]) -> Path:
    (folder / "report.json").write_text(json.dumps({"outcomes": outcomes}))
    return folder


def test_what_ran_is_taken_though_not_all_could(tmp_path: Path) -> None:
    require_run(_report(tmp_path, RAN, UNSELECTED))


@pytest.mark.parametrize(
    ("outcomes", "words"),
    [
        ([RAN, CUT_OFF], "the run was cut off before 1 of 2 checks: kits.two"),
        ([UNSELECTED], "none of 1 checks ran"),
        ([], "none of 0 checks ran"),
    ],
)
def test_a_run_that_was_cut_off_or_looked_at_nothing_is_none(
    outcomes: list[dict[str, Any]], words: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        require_run(_report(tmp_path, *outcomes))


def test_a_run_without_a_report_is_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="left no report"):
        require_run(tmp_path)
