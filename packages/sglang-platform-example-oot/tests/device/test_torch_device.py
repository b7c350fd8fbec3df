"""The device under torch: operators against the CPU, memory, streams, events, generators, graphs, and what it refuses.

The tests themselves are in `programs/check_*.py`, which run in a process in which the device is open.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
CHECKS = [
    statement.name
    for file in sorted(PROGRAMS.glob("check_*.py"))
    for statement in ast.parse(file.read_text()).body
    if isinstance(statement, ast.FunctionDef) and statement.name.startswith("test_")
]


@pytest.fixture(scope="module")
def outcomes(native, run, tmp_path_factory) -> dict[str, str | None]:
    """What failed in each check, or None. One that takes parameters fails with the first of them that does."""
    file = tmp_path_factory.mktemp("checks") / "outcomes.jsonl"
    file.touch()
    done = run("run_checks.py", str(file))
    lost = f"the process ended before this test, with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    found: dict[str, str | None] = {}
    for name, failure in map(json.loads, file.read_text().splitlines()):
        check = name.partition("[")[0]
        found[check] = found.get(check) or failure
    return dict.fromkeys(CHECKS, lost) | found


@pytest.mark.parametrize("check", CHECKS)
def test_device(check: str, outcomes: dict[str, str | None]) -> None:
    assert outcomes[check] is None, outcomes[check]


@pytest.mark.usefixtures("native")
def test_the_host_cannot_touch_device_memory(run) -> None:
    """Mixing host and device memory must fail here and not on a vendor's card."""
    done = run("touch_device_memory.py")
    assert done.returncode == -11, done.stderr


@pytest.mark.usefixtures("native")
def test_a_forked_child_has_no_device(run) -> None:
    done = run("fork.py")
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("native")
def test_a_forked_child_is_refused_the_work_of_its_parent(run) -> None:
    done = run("fork_with_work.py")
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize(
    "way", ["give_back", "drop_a_graph", "take_the_last_memory", "grow", "in_many_threads"]
)
def test_who_waits_for_the_device_lets_go_of_python(way: str, run) -> None:
    """An operator written in Python is queued, and needs what the waiting thread held."""
    done = run("wait_for_python.py", way, SGLANG_EXAMPLE_OOT_MEMORY=str(1 << 30))
    assert done.stdout.strip() == "done", done.stderr


@pytest.mark.usefixtures("native")
def test_a_stream_without_a_thread_is_refused(run) -> None:
    done = run("no_thread_for_a_stream.py")
    assert done.stdout.strip() == "done", done.stderr


@pytest.mark.usefixtures("native")
def test_what_failed_at_the_end_is_told(run) -> None:
    done = run("fail_at_the_end.py")
    assert done.returncode == 0
    assert "example_oot: work on device 0 failed, and nobody waited for it: index 9 is out of" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_the_device_the_cpu_serves_and_says_so(run) -> None:
    done = run("open_device.py", SGLANG_EXAMPLE_OOT_NATIVE="0")
    assert done.stdout.strip() == "cpu"
    assert "serving on 'cpu'" in done.stderr


@pytest.mark.usefixtures("native")
def test_kernels_run_on_the_devices_cores_whatever_the_host_allows_itself(run) -> None:
    """More cores than the machine has: some threads are always late, and the results are those of one thread."""
    done = run("threads_of_the_device.py", SGLANG_EXAMPLE_OOT_CORES="5")
    assert done.returncode == 0, done.stderr
