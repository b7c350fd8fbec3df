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


# Plain modules of this folder and of the one beside it: `invented_feature`, `mutant`, `plugins`.
sys.path[:0] = [str(HERE), str(MUTANTS)]


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
