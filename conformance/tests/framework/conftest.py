from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sglang_platform.conformance.outcome import Outcome
from sglang_platform.conformance.runner import Runner, Selection

MUTANTS = Path(__file__).parent.parent / "mutants"
HERE = Path(__file__).parent


@pytest.fixture(scope="session", autouse=True)
def _mutant_modules() -> None:
    """`mutant` and `plugins` are plain modules of the folder beside this one."""
    sys.path.insert(0, str(MUTANTS))


def environment(*folders: Path) -> dict[str, str]:
    """Variables with which a worker finds modules in these folders."""
    path = os.pathsep.join([*map(str, folders), os.environ.get("PYTHONPATH", "")])
    return {"PYTHONPATH": path.rstrip(os.pathsep), "OMP_NUM_THREADS": "1"}


RunOdd = Callable[..., list[Outcome]]


@pytest.fixture
def run_odd() -> RunOdd:
    """Run checks on a class of `odd_platforms.py`."""

    def run(location: str, *checks: str, **fields: Any) -> list[Outcome]:
        selection = Selection(
            f"odd=odd_platforms:{location}", checks=checks, environment=environment(HERE), **fields
        )
        return Runner(selection).run()

    return run
