"""What a plugin does while it starts, hangs or dies is told once, and nothing of it outlives the suite."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import environment
from sglang_platform.conformance import process
from sglang_platform.conformance.check import registered
from sglang_platform.conformance.host.distribution import write_distribution
from sglang_platform.conformance.outcome import Outcome
from sglang_platform.conformance.runner import Runner, Selection

FOLDER = Path(__file__).parent / "misbehaving"
CREATED = "contract.platform_is_created"
FACTORIES, NAMED = "contract.factories_answer_with_classes", "contract.device_is_named"
SOUND = "packaging.metadata_is_sound"


@pytest.fixture
def misbehaving(tmp_path: Path) -> Callable[..., Runner]:
    """A runner of checks on a platform of the folder."""

    def make(module: str, *checks: str, variables: dict[str, str] | None = None, **more: Any) -> Runner:
        told = {**environment(FOLDER, tmp_path), **(variables or {})}
        calls = {name: more.pop(name) for name in list(more) if name.startswith("on_")}
        return Runner(Selection(f"odd={module}:Platform", checks=checks, environment=told, **more), **calls)

    return make


Make = Callable[..., Runner]


def _by_id(outcomes: list[Outcome]) -> dict[str, Outcome]:
    return {one.id: one for one in outcomes}


def _alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.mark.long
@pytest.mark.parametrize(
    "checks",
    [
        (CREATED, FACTORIES, NAMED, SOUND),
        pytest.param((FACTORIES, NAMED, SOUND), marks=pytest.mark.long),
    ],
)
def test_a_start_that_hangs_is_told_once(
    misbehaving: Make, monkeypatch: pytest.MonkeyPatch, checks: tuple[str, ...]
) -> None:
    monkeypatch.setattr(process, "START_SECONDS", 30)
    started = time.monotonic()
    found = _by_id(misbehaving("hangs_at_start", *checks).run())
    assert time.monotonic() - started < 75
    first = CREATED if CREATED in checks else next(name for name in found if name != SOUND)
    assert (found[first].status, found[first].failure) == ("failed", "timeout")
    assert "while the platform was made" in (found[first].what or "")
    assert "hangs_at_start.py" in (found[first].trace or "")
    others = [found[name] for name in checks if name not in (first, SOUND)]
    assert {one.status for one in others} == {"blocked"}
    assert all(first in (one.why or "") for one in others)
    assert found[SOUND].status != "blocked"  # it needs no start


@pytest.mark.long
def test_a_build_is_shown_and_not_counted(misbehaving: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "START_SECONDS", 25)
    said: list[str] = []
    runner = misbehaving("builds_at_start", NAMED, on_building=said.append, variables={"BUILD_SECONDS": "35"})
    try:
        about = runner.describe()
    finally:
        runner.close()
    assert about["platform"]["class"] == "builds_at_start.Platform"
    assert any("g++" in one or "cc1plus" in one for one in said), said


def test_an_exit_at_import_is_told_once(misbehaving: Make) -> None:
    found = _by_id(misbehaving("exits_at_import", CREATED, FACTORIES, NAMED).run())
    assert (found[CREATED].status, found[CREATED].failure) == ("failed", "crash")
    assert "ended with status 3 while the platform was made" in (found[CREATED].what or "")
    assert "no firmware found" in (found[CREATED].trace or "")
    assert [found[name].status for name in (FACTORIES, NAMED)] == ["blocked", "blocked"]


@pytest.mark.long
def test_a_time_limit_ends_all_that_was_started(misbehaving: Make, tmp_path: Path) -> None:
    children = tmp_path / "children"
    runner = misbehaving(
        "leaves_children", FACTORIES, NAMED, variables={"CHILDREN": str(children)}, patience=0.2
    )
    found = _by_id(runner.run())
    assert (found[FACTORIES].failure, found[NAMED].status) == ("timeout", "passed")
    pids = [int(line) for line in children.read_text().split()]
    assert len(pids) >= 2
    assert _alive(pids) == []


def test_garbage_on_every_open_file_spoils_nothing(misbehaving: Make) -> None:
    assert [one.status for one in misbehaving("prints_garbage", FACTORIES, NAMED).run()] == [
        "passed",
        "passed",
    ]


@pytest.mark.long
def test_a_process_that_holds_the_interpreters_lock_is_ended(misbehaving: Make) -> None:
    found = _by_id(misbehaving("holds_the_lock", FACTORIES, NAMED, patience=0.2).run())
    assert (found[FACTORIES].failure, found[NAMED].status) == ("timeout", "passed")
    assert "holds_the_lock.py" in (found[FACTORIES].trace or "")
    assert "waited for a processor" not in str(found[FACTORIES].what)


@pytest.fixture
def busy() -> Iterator[None]:
    """What is started shares one processor with three others that always work."""
    every = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(every)})
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)]
    yield
    for one in others:
        one.kill()
        one.wait()
    os.sched_setaffinity(0, every)


@pytest.mark.long
@pytest.mark.usefixtures("busy")
def test_a_time_limit_on_a_busy_machine_says_so(misbehaving: Make) -> None:
    (found,) = misbehaving("holds_the_lock", FACTORIES, patience=0.1, variables={"WORKS": "600"}).run()
    assert found.failure == "timeout"
    assert re.search(r"s more; for \d+ s it waited for a processor that others had", str(found.what))
    assert "when the machine has less to do" in str(found.fix)


@pytest.mark.long
@pytest.mark.usefixtures("busy")
def test_the_time_that_others_had_the_processor_is_not_counted(
    misbehaving: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_TIMES_LONGER", 100.0)  # nobody knows who else is on this machine
    started = time.monotonic()
    (found,) = misbehaving("holds_the_lock", FACTORIES, patience=0.2, variables={"WORKS": "5"}).run()
    assert (found.status, time.monotonic() - started > 0.2 * registered()[FACTORIES].seconds) == (
        "passed",
        True,
    )


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("function", "why"), [("raises", "needs its daemon"), ("exits", "ended with status 5")]
)
def test_a_broken_plugin_of_another_distribution_is_left_out(
    misbehaving: Make, tmp_path: Path, function: str, why: str
) -> None:
    write_distribution(tmp_path, "some-tracer", {"sglang.srt.plugins": f"tracer = of_another:{function}"})
    runner = misbehaving(
        "builds_at_start", "processes.child_processes_agree", NAMED, variables={"BUILD_SECONDS": "0"}
    )
    try:
        about = runner.describe()
        (told,) = runner.left_out
        found = runner.run()
    finally:
        runner.close()
    assert about["platform"]["class"] == "builds_at_start.Platform"
    assert (told["name"], told["distribution"]) == ("tracer", "some-tracer")
    assert why in told["why"]
    assert [one.status for one in found] == ["passed", "passed"], [(one.what, one.why) for one in found]


@pytest.mark.long
def test_no_process_is_left_when_the_runner_is_closed(misbehaving: Make, tmp_path: Path) -> None:
    children = tmp_path / "children"
    runner = misbehaving("leaves_children", FACTORIES, variables={"CHILDREN": str(children)}, patience=0.2)
    runner.run_one(runner.selection.chosen()[0])
    runner.close(kindly=False)
    assert _alive([int(line) for line in children.read_text().split()]) == []
    assert os.getpid()  # this one lives
