"""Runs all `check_*.py` of this folder in this process, and writes a line of JSON for each test: `OUTCOMES`.

Importing torch costs more than all of them, so they share one process. A line is written as soon as its test ends: what
was seen before a crash is not lost.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest


class Outcomes:
    """Writes `[name, what failed or null]` to a file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.failed:
            with self.file.open("a") as file:
                failure = report.longreprtext if report.failed else None
                file.write(json.dumps([report.nodeid.rpartition("::")[2], failure]) + "\n")


if __name__ == "__main__":
    files = sorted(map(str, Path(__file__).parent.glob("check_*.py")))
    options = ["-q", "--import-mode=importlib", "-p", "no:cacheprovider"]
    sys.exit(pytest.main([*options, *files], plugins=[Outcomes(Path(sys.argv[1]))]))
