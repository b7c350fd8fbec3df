"""Runs tests in a process in which the device is open.

The device can be opened once per process and stays: other tests of the same run must not notice it. Importing torch
costs more than all the tests of a file, so one process runs them all.
"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

PREAMBLE = """
import torch
from sglang_platform.example_oot import torch_device
D = torch_device.open_device()
assert D == torch_device.NAME, D
device = torch.get_device_module(D)
"""

_RUN_ALL = """
import json, traceback
outcomes = {}
for name, body in bodies.items():
    try:
        body()
        outcomes[name] = None
    except Exception:
        outcomes[name] = traceback.format_exc()
    print(json.dumps(outcomes), flush=True)
"""

_bodies: dict[str, str] = {}
_outcomes: dict[str, str | None] = {}


def on_device(body: Callable[[], None]) -> Callable[[], None]:
    """The test `body`, run elsewhere; there `D` is the device type, `device` its module, `torch` torch."""
    _bodies[body.__name__] = textwrap.dedent(inspect.getsource(body)).split("\n", 1)[
        1
    ]  # without this decorator

    def test() -> None:
        from sglang_platform.example_oot.kernels import library

        if library.backend() != "native":
            pytest.skip("this machine cannot build the device; the reason is on stderr")
        if not _outcomes:
            _run_all()
        assert _outcomes[body.__name__] is None, _outcomes[body.__name__]

    test.__name__, test.__doc__ = body.__name__, body.__doc__
    return test


def _run_all() -> None:
    names = "\n".join(f"bodies[{name!r}] = {name}" for name in _bodies)
    done = run_code("\n".join([PREAMBLE, *_bodies.values(), "bodies = {}", names, _RUN_ALL]))
    for name in _bodies:
        _outcomes[name] = f"the process ended before this test, with {done.returncode}:\n{done.stderr}"
    if done.stdout.strip():
        _outcomes.update(json.loads(done.stdout.splitlines()[-1]))


def run_code(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process of its own."""
    variables = {**os.environ, "OMP_NUM_THREADS": "2", **environment}
    return subprocess.run(
        [sys.executable, "-c", code], env=variables, capture_output=True, text=True, timeout=240
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
        errors = [rank.communicate(timeout=240)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    for rank, error in zip(ranks, errors, strict=True):
        assert rank.returncode == 0, error
