"""`benchmarks/gpu_all.py` rehearsed without a card: under a driver that executes nothing, with rows and kernels that go
wrong in each way.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.long

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
PROGRAMS = Path(__file__).parent / "programs"
ALL = str(BENCHMARKS / "gpu_all.py")


def command(out: Path, *arguments: str) -> list[str]:
    return [sys.executable, ALL, "--pretend", "sm_90", "--platform", "cuda", "--out", str(out), *arguments]


def run(out: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    done = subprocess.run(
        command(out, *arguments),
        env={**os.environ, "PYTHONPATH": str(PROGRAMS)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert (out / "gpu_all.json").exists(), done.stderr
    return done.returncode, json.loads((out / "gpu_all.json").read_text()), done.stdout


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, dict[str, Any], str]:
    out = tmp_path_factory.mktemp("faulty")
    groups = ("--groups", "rehearsed_rows", "--declared", "rehearsed_kernels:KERNELS")
    return run(out, *groups, "--steps", "correctness,rows", "--row-limit", "8", "--cores", "1")


def rows_of(found: dict[str, Any]) -> dict[int, Any]:
    return {row["case"]["number"]: row["skipped"] for row in found["rows"]}


def test_a_row_that_raises_hangs_or_dies_costs_itself_only(faulty: tuple[int, dict[str, Any], str]) -> None:
    status, found, _ = faulty
    rows = rows_of(found)
    assert sorted(rows) == list(range(1, 10))
    assert [rows[number] for number in (1, 3, 6, 8)] == [None] * 4
    assert rows[2] == "raised RuntimeError: an illegal memory access was encountered"
    assert rows[4] == "ended after 8 s without a word"
    assert rows[5].startswith("killed by SIGKILL")
    assert not found["not_run"]
    assert status == 1
    assert len(found["faults"]) == 3


def test_a_kernel_that_is_wrong_or_dies_is_not_timed(faulty: tuple[int, dict[str, Any], str]) -> None:
    _, found, page = faulty
    verdicts = {kernel["kernel"]: kernel["verdict"] for kernel in found["correctness"]}
    assert verdicts["right"] == "right"
    assert verdicts["off by one"].startswith("is wrong: ")
    assert verdicts["deadly"].startswith("is not known to be right: killed by SIGSEGV")
    rows = rows_of(found)
    assert rows[7] == f"off by one {verdicts['off by one']}"
    assert rows[9] == f"deadly {verdicts['deadly']}"
    assert "| off by one | is wrong" in page
    assert "| on a wrong kernel | number=7 | left out: off by one is wrong" in page


def test_one_of_each_name_goes_first(faulty: tuple[int, dict[str, Any], str]) -> None:
    order = [row["case"]["number"] for row in faulty[1]["rows"] if row["name"] in ("good", "hangs", "dies")]
    assert order == [1, 4, 5, 3, 6]


def test_what_a_result_depends_on_is_written_beside_it(faulty: tuple[int, dict[str, Any], str]) -> None:
    import torch

    _, found, page = faulty
    assert found["versions"]["torch"] == torch.__version__
    assert {"target", "python", "triton"} <= set(found["versions"])
    assert found["pretended"]
    assert "A rehearsal without a device" in page


def test_what_does_not_fit_into_the_budget_is_listed(tmp_path: Path) -> None:
    start = time.monotonic()
    run(tmp_path / "plan", "--groups", "slow_rows", "--steps", "racecheck")
    budget = 2 * (time.monotonic() - start) + 10  # a plan, and as long again for the first row to begin
    out = tmp_path / "out"
    start = time.monotonic()
    arguments = ("--groups", "slow_rows", "--steps", "rows,racecheck", "--budget", f"{budget:.0f}")
    status, found, page = run(out, *arguments)
    took = time.monotonic() - start
    done, not_run = rows_of(found), {entry["what"]: entry["why"] for entry in found["not_run"]}
    assert status == 0
    assert done
    assert not any(done.values())
    assert len(done) + len(not_run) - 1 == 400, "each row ran or is listed; and racecheck"
    used_up = f"the budget of {budget:.0f} s was used up"
    assert not_run["slow number=399"] == not_run["racecheck"] == used_up
    assert f"| slow number=399 | {used_up} |" in page
    assert took < budget + 40


def test_stopped_it_leaves_whole_files_and_no_process(tmp_path: Path) -> None:
    started = command(tmp_path, "--groups", "slow_rows", "--steps", "rows", "--budget", "300")
    environment = {**os.environ, "PYTHONPATH": str(PROGRAMS), "REHEARSAL_OF": str(tmp_path)}
    process = subprocess.Popen(started, env=environment, stdout=subprocess.PIPE, text=True)
    end = time.monotonic() + 120
    while time.monotonic() < end and not _rows_in(tmp_path):
        time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    found = json.loads((tmp_path / "gpu_all.json").read_text())
    assert found["rows"]
    assert "the run was stopped" in (tmp_path / "gpu_all.md").read_text()
    mark = f"REHEARSAL_OF={tmp_path}".encode()
    alive = [path for path in Path("/proc").glob("[0-9]*/environ") if mark in _bytes(path)]
    assert not alive, alive


def _rows_in(folder: Path) -> bool:
    file = folder / "gpu_all.json"
    return file.exists() and bool(json.loads(file.read_text())["rows"])


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.host
def test_peers_are_carried_as_plain_python(tmp_path: Path) -> None:
    """SGLang's kernels, from a folder in which there is nothing else of SGLang, launched beside ours."""
    peers = tmp_path / "peers"
    packed = subprocess.run(
        [sys.executable, str(BENCHMARKS / "gpu_peers"), str(peers)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert packed.returncode == 0, packed.stderr
    assert sum(path.stat().st_size for path in peers.rglob("*")) < 1 << 20
    out = tmp_path / "out"
    status, found, _ = run(
        out, "--groups", "attention", "--steps", "rows", "--quick", "--peers", str(peers), "--budget", "400"
    )
    assert status == 0
    assert found["versions"]["sglang"].endswith("its Triton kernels carried")
    for row in found["rows"]:
        assert row["skipped"] is None, row
        assert "sglang triton" not in row["missing"], row["missing"]
        launched = {launch["kernel"] for launch in row["launches_of_peers"]}
        stage = "_fwd_kernel" if row["name"].startswith("prefill") else "_fwd_kernel_stage2"
        assert stage in launched, launched
    assert len(found["rows"]) == 10


def test_the_suite_is_a_step_and_what_it_counts_is_kept(tmp_path: Path) -> None:
    status, found, page = run(tmp_path, "--steps", "conformance", "--levels", "packaging", "--budget", "2000")
    counts = found["conformance"]["counts"]
    assert counts["passed"] >= 10, found["steps"]
    assert not found["conformance"]["failed"]
    assert status == 0
    assert f"Levels packaging: {counts['passed']} passed" in page


def test_without_a_device_it_says_so(tmp_path: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a device")
    done = subprocess.run(
        [sys.executable, ALL, "--out", str(tmp_path / "out")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "no GPU can be used" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_step_that_is_not_known_is_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        [*command(tmp_path), "--steps", "rowz"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "no such step: rowz; there are compile," in done.stderr
