"""Finds out which modules and distributions are visible to an interpreter started in another folder.

That interpreter cannot import this project, so it runs the source of `installed.modules` followed by this file.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = ["found_by_a_fresh_interpreter"]


def found_by_a_fresh_interpreter(
    modules: Sequence[str], distributions: Sequence[str]
) -> tuple[set[str], set[str]]:
    """Which of these are found from an empty folder, without PYTHONPATH.

    Raises OSError or subprocess.SubprocessError where no such interpreter can be started.
    """
    from sglang_platform.core.installed import modules as search  # unavailable in the other interpreter

    program = f"{Path(str(search.__file__)).read_text(encoding='utf-8')}\n{_own_text()}"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with tempfile.TemporaryDirectory() as empty:
        run = subprocess.run(
            [sys.executable, *search.interpreter_flags(), "-c", program],
            input=json.dumps([list(modules), list(distributions)]),
            cwd=empty,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    found_modules, found_distributions = json.loads(run.stdout.splitlines()[-1])
    return set(found_modules), set(found_distributions)


def _own_text() -> str:
    """This file, without the `from __future__` that may only begin a program."""
    return Path(__file__).read_text(encoding="utf-8").replace("from __future__ import annotations\n", "")


def _answer() -> None:
    """Runs in the other interpreter: reads two lists from standard input and prints the entries that it found."""

    def is_installed(distribution: str) -> bool:
        try:
            version(distribution)
        except (PackageNotFoundError, KeyError):
            return False
        return True

    modules, distributions = json.load(sys.stdin)
    found = [module for module in modules if find(module)[0] is not None]  # type: ignore[name-defined]  # noqa: F821 - of `installed.modules`
    print(json.dumps([found, list(filter(is_installed, distributions))]))


if __name__ == "__main__":
    _answer()
