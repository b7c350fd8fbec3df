"""Starts an interpreter process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["environment", "run_python", "run_tests"]


def environment() -> dict[str, str]:
    """This process's environment, with the interpreter switched on and one thread per process."""
    return {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def run_python(arguments: Sequence[str], timeout: float = 600) -> subprocess.CompletedProcess[str]:
    """Python with `arguments` in an interpreter process; standard output and error together in `stdout`."""
    return subprocess.run(
        [sys.executable, *arguments],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
    )


def run_tests(folder: Path, *options: str, timeout: float = 600) -> None:
    """pytest over `folder` in an interpreter process. Raises AssertionError with its output unless all passed.

    The folder's `conftest.py` calls `interpreter.start()`, and `collect_ignore_glob` keeps other processes out.
    """
    done = run_python(["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *options, str(folder)], timeout)
    if done.returncode != 0:
        raise AssertionError(done.stdout[-6000:])
