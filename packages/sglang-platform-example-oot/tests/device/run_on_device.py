"""Runs one function of a test file in a fresh process in which the device is open.

The device can be opened once per process and stays: other tests of the same run must not notice it.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

_PREAMBLE = """
import torch
from sglang_platform.example_oot import torch_device
D = torch_device.open_device()
assert D == torch_device.NAME, D
device = torch.get_device_module(D)
"""


def on_device(body: Callable[[], None]) -> Callable[[], None]:
    """The test `body`, run elsewhere; there `D` is the device type, `device` its module, `torch` torch."""
    source = textwrap.dedent(inspect.getsource(body)).split("\n", 1)[1]  # without this decorator

    def test() -> None:
        from sglang_platform.example_oot.kernels import library

        if library.backend() != "native":
            pytest.skip("this machine cannot build the device; the reason is on stderr")
        done = run_code(f"{_PREAMBLE}\n{source}\n{body.__name__}()")
        assert done.returncode == 0, done.stderr

    test.__name__, test.__doc__ = body.__name__, body.__doc__
    return test


def run_code(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process of its own."""
    variables = {**os.environ, "OMP_NUM_THREADS": "2", **environment}
    return subprocess.run(
        [sys.executable, "-c", code], env=variables, capture_output=True, text=True, timeout=120
    )


def run_ranks(program: Path, **environment: str) -> None:
    """Run a Python file as ranks 0 and 1 at the same time; AssertionError with the output of one that failed."""
    variables = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(program), str(rank)], env=variables, stderr=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    try:
        errors = [rank.communicate(timeout=120)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    for rank, error in zip(ranks, errors, strict=True):
        assert rank.returncode == 0, error
