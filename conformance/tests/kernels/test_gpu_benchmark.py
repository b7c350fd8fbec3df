"""`benchmarks/gpu.py` up to the device: what it does without one, its rows, its table and its plot."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
PROGRAM = Path(__file__).parent / "programs" / "name_benchmark_rows.py"


def record() -> dict[str, Any]:
    """What a run leaves, with made-up times that nothing is claimed of."""
    row = {
        "name": "decode",
        "case": {"batch": 1},
        "bound": "memory",
        "bytes": 10**9,
        "flops": 10**10,
        "skipped": None,
    }
    return {
        "versions": {"target": "sm_90", "torch": "2.11", "triton": "3.6"},
        "copy_bandwidth": 4e12,
        "rows": [
            {
                **row,
                "seconds": {"sglang_platform": 5e-4, "peer": 1e-3},
                "missing": {"other": "ImportError: no other"},
            },
            {**row, "bound": "compute", "seconds": {"sglang_platform": 1e-3}, "missing": {}},
            {**row, "seconds": {}, "missing": {}, "skipped": "needs 200 GiB, 100 are free"},
        ],
    }


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def test_without_a_device_it_says_so_and_how_to_go_on(tmp_path: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a device")
    command = [sys.executable, str(BENCHMARKS / "gpu.py"), "--results", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no GPU can be used" in done.stderr
    assert "--pretend" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("modules")
def test_the_table_states_shares_ratios_and_what_was_missing() -> None:
    text = importlib.import_module("gpu_table").table(record())
    assert "500.0 us" in text
    assert "2000 GB/s (50% of copy)" in text
    assert "peer 2.00x" in text
    assert "10.0 TFLOP/s" in text
    assert "left out: needs 200 GiB" in text
    assert "not measured: other: ImportError: no other" in text


@pytest.mark.usefixtures("modules")
def test_the_roofline_has_a_point_per_time_and_nothing_without_times(tmp_path: Path) -> None:
    roofline = importlib.import_module("gpu_roofline")
    roofline.save(record(), tmp_path / "gpu.svg")
    svg = (tmp_path / "gpu.svg").read_text()
    assert svg.count("<title>") == 3
    roofline.save({**record(), "rows": []}, tmp_path / "empty.svg")
    assert not (tmp_path / "empty.svg").exists()


@pytest.mark.usefixtures("modules")
def test_every_row_is_named_once() -> None:
    """In a process of its own: kernels must not be imported into one that may meet the interpreter."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM)],
        env={**os.environ, "PYTHONPATH": str(BENCHMARKS)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
