from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sglang_platform.conformance.outcome import Outcome
from sglang_platform.conformance.runner import Runner, Selection
from sglang_platform.core.discovery import current

MUTANTS = Path(__file__).parent.parent / "mutants"
HERE = Path(__file__).parent


# Plain modules of this folder and of the one beside it: `invented_feature`, `mutant`, `plugins`.
sys.path[:0] = [str(HERE), str(MUTANTS)]


def environment(*folders: Path) -> dict[str, str]:
    """Variables with which a worker finds modules in these folders."""
    path = os.pathsep.join([*map(str, folders), os.environ.get("PYTHONPATH", "")])
    return {"PYTHONPATH": path.rstrip(os.pathsep), "OMP_NUM_THREADS": "1"}


@pytest.fixture
def chosen_here() -> Iterator[None]:
    """For subjects of this process: as in a worker, they name their platform in the environment. It is put back."""
    before = dict(os.environ)
    current.reset()
    yield
    for name in set(os.environ) - set(before):
        del os.environ[name]
    os.environ.update(before)
    current.reset()


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
