"""Where the processes of a start that hangs stand: the stack of each thread of each, by py-spy."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from sglang_platform.conformance.guard import descendants

__all__ = ["HangingStart", "completed", "kill_group", "kill_tree", "stacks"]

_DUMP_SECONDS = 20.0
_TRIES = 3
"""py-spy can fail where the process runs on while its memory is read."""
_TRACKER_SECONDS = 5.0


class HangingStart(RuntimeError):
    """A program did not end within its limit; the message holds the stacks of its processes, and its last words."""


def completed(
    command: Sequence[str | Path], *, seconds: float, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program that starts SGLang, with what it printed. Raises HangingStart where it runs longer than `seconds`:
    by then nothing that it started is left."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", env=env
    ) as process:
        try:
            output, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            where = stacks(process.pid)
            kill_tree(process.pid)
            output, errors = process.communicate()
            said = f"{output[-2000:]}\n{errors[-4000:]}"
            raise HangingStart(f"{command} runs after {seconds:.0f} s:\n{where}\n{said}") from None
        except BaseException:
            kill_tree(process.pid)
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def stacks(pid: int) -> str:
    """The stacks of a process and of all that it started, as text; where py-spy cannot tell, why not.

    py-spy is among SGLang's requirements, so it is there wherever an engine is. Takes up to 20 s for each process.
    """
    beside = Path(sys.executable).with_name("py-spy")
    program = str(beside) if beside.exists() else shutil.which("py-spy")
    if program is None:
        return "no stacks: py-spy is not installed (pip install py-spy)"
    names = {pid: "the process that was started", **descendants(pid)}
    return "\n\n".join(f"-- {name} --\n{_dump(program, one)}" for one, name in names.items())


def _dump(program: str, pid: int) -> str:
    said = ""
    for _ in range(_TRIES):
        try:
            told = subprocess.run(
                [program, "dump", "--pid", str(pid)],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_DUMP_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return f"process {pid}: py-spy has no answer within {_DUMP_SECONDS:.0f} s"
        if told.stdout.strip():
            return told.stdout.strip()
        said = told.stderr.strip()
    return f"process {pid}: {said}"


def kill_tree(pid: int) -> None:
    """SIGKILL to a process and to all that it started. Python's resource trackers come last: they remove the shared
    memory of the others, and end when these are gone."""
    _kill_all([pid, *descendants(pid)])


def kill_group(leader: int) -> None:
    """The same for a process group, whether or not its leader is gone."""
    group = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # a process may end while it is read
            if int((folder / "stat").read_text().rpartition(")")[2].split()[2]) == leader:
                group.append(int(folder.name))
    _kill_all(group)


def _kill_all(every: Sequence[int]) -> None:
    trackers = [one for one in every if _is_tracker(one)]
    for one in every:
        if one not in trackers:
            _kill(one)
    until = time.monotonic() + _TRACKER_SECONDS
    while any(map(_is_tracker, trackers)) and time.monotonic() < until:
        time.sleep(0.01)
    for one in trackers:
        if _is_tracker(one):
            _kill(one)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _is_tracker(pid: int) -> bool:
    """Of a process that has ended there is no command line, whether or not it was waited for."""
    with contextlib.suppress(OSError):
        return b"multiprocessing.resource_tracker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False
