"""A launcher that loses a process says which, and leaves no shared memory."""

from __future__ import annotations

import ast
import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest

from sglang_platform.conformance.host.stacks import completed
from sglang_platform.devtools.source.opening import open_host

pytestmark = pytest.mark.host

PROGRAMS = Path(__file__).with_name("programs")


def _run(word: str, program: str = "lose_a_process.py", **variables: str) -> tuple[int, str, str]:
    environment = {**os.environ, "SGLANG_PLATFORM": "example_oot", **variables}
    command = [sys.executable, "-W", "ignore", PROGRAMS / program, word]
    run = completed(command, env=environment, seconds=200)
    return run.returncode, run.stdout, run.stderr


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "noticed_by",
    ["watchdog", pytest.param("another rank", marks=pytest.mark.long), "another rank, while it dies"],
)
def test_it_is_named_and_nothing_is_left(noticed_by: str) -> None:
    status, said, log = _run(noticed_by)
    assert status == -signal.SIGKILL, log[-3000:]
    (pid,) = re.findall(r"killed (\d+)", said)
    naming = [line for line in log.splitlines() if re.search(rf"\b{pid}\b", line)]
    assert len(naming) == 1 + (noticed_by == "watchdog"), log[-3000:]  # SGLang's watchdog names it as well
    assert "scheduler_1" in naming[-1]
    assert "was killed by SIGKILL" in naming[-1]
    assert "fix:" in naming[-1]
    held = re.findall(r"holds (\S+)", said)
    assert len(held) == 5
    until = time.monotonic() + 10  # the resource tracker removes it once all others are gone
    while (left := [name for name in held if Path("/dev/shm", name).exists()]) and time.monotonic() < until:
        time.sleep(0.1)
    assert not left


@pytest.mark.long
def test_a_launcher_that_kills_the_others_and_lives_on_leaves_nothing() -> None:
    """As `Engine.shutdown()`: it keeps its resource tracker, which removes what the killed held when it ends."""
    status, said, log = _run("nobody")
    assert status == 0, log[-3000:]
    held = re.findall(r"holds (\S+)", said)
    assert len(held) == 5
    until = time.monotonic() + 10
    while (left := [name for name in held if Path("/dev/shm", name).exists()]) and time.monotonic() < until:
        time.sleep(0.1)
    assert not left


@pytest.mark.long
def test_the_ranks_message_queue_needs_nobody_to_remove_it(tmp_path: Path) -> None:
    """It has no name any more once both ranks have it: however a server ends, also with no resource tracker."""
    status, said, log = _run(str(tmp_path / "store"), "share_a_message_queue.py")
    assert status == 0, log[-3000:]
    (name,) = re.findall(r"shares (\S+)", said)
    left = Path("/dev/shm", name)
    try:
        assert not left.exists()
    finally:
        left.unlink(missing_ok=True)


_MESSAGE_QUEUE = Path(__file__).parents[4] / "tools" / "versions" / "message_queue.py"


@pytest.mark.long
def test_the_queue_has_no_name_where_nobody_asked_for_a_platform_before_plugins_were_loaded() -> None:
    """As in SGLang 0.5.11; the support matrix runs it in every release."""
    command = [sys.executable, "-W", "ignore", str(_MESSAGE_QUEUE)]
    run = completed(command, env={**os.environ, "SGLANG_PLATFORM": "example_oot"}, seconds=200)
    assert run.returncode == 0, run.stderr[-3000:]
    assert "has no name any more" in run.stdout


WHEELS = os.environ.get("SGLANG_PLATFORM_HOST_WHEELS")
"""A folder of SGLang's wheels: their queues are read as well."""
RELEASES = ["installed", *(map(str, sorted(Path(WHEELS).glob("sglang-*.whl"))) if WHEELS else ())]


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: Path(release).name)
def test_the_queue_keeps_its_memory_where_the_hook_looks(release: str) -> None:
    """`buffer`, which is None where a node has no readers, with `shared_memory` that whoever `is_creator` removes."""
    module = open_host(release, {"sglang"}).module(
        "sglang.srt.distributed.device_communicators.shm_broadcast"
    )
    assert module is not None
    classes = {one.name: one for one in ast.walk(module.tree) if isinstance(one, ast.ClassDef)}
    methods = {one.name: one for one in classes["ShmRingBuffer"].body if isinstance(one, ast.FunctionDef)}
    assert {"is_creator", "shared_memory"} <= _own_attributes(methods["__init__"], ast.Store)
    assert {"is_creator", "shared_memory"} <= _own_attributes(methods["__del__"], ast.Load)
    queue = {one.name: one for one in classes["MessageQueue"].body if isinstance(one, ast.FunctionDef)}
    for made in ("__init__", "create_from_handle"):
        assert "buffer" in _own_attributes(queue[made], ast.Store)
    assert [one.arg for one in queue["wait_until_ready"].args.args] == ["self"]


def _own_attributes(function: ast.FunctionDef, use: type[ast.expr_context]) -> set[str]:
    found = (one for one in ast.walk(function) if isinstance(one, ast.Attribute) and isinstance(one.ctx, use))
    return {one.attr for one in found if isinstance(one.value, ast.Name) and one.value.id == "self"}


@pytest.mark.long
def test_core_dumps_of_cuda_are_waited_for_where_they_are_asked_for() -> None:
    assert "core dumps 0" in _run("watchdog")[1]
    assert "core dumps 1" in _run("watchdog", SGLANG_CUDA_COREDUMP_BEFORE_CRASH="1")[1]
