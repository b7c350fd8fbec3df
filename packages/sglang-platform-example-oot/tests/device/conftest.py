"""Programs that open the device: once open it stays, and other tests of the run must not notice."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sglang_platform.example_oot.kernels import library

PROGRAMS = Path(__file__).parent / "programs"

Start = Callable[..., "subprocess.Popen[str]"]
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def start_program(name: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Start a file of `programs/` with these arguments, under these environment variables."""
    return subprocess.Popen(
        [sys.executable, str(PROGRAMS / name), *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "2", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_program(name: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a file of `programs/` to its end."""
    process = start_program(name, *arguments, **environment)
    try:
        out, errors = process.communicate(timeout=240)
    finally:
        process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, out, errors)


@pytest.fixture(scope="session")
def start() -> Start:
    return start_program


@pytest.fixture(scope="session")
def run() -> Run:
    return run_program


@pytest.fixture(scope="session")
def native() -> None:
    """For tests that need the C++ part."""
    if library.backend() != "native":
        pytest.skip("this machine cannot build the device; the reason is on stderr")
