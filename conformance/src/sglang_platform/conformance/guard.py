"""Runs one command, and lets nothing that it started outlive it.

    python -I -S guard.py LIFELINE COMMAND...

`LIFELINE` is the number of a pipe's reading end. When the command ends, or when the pipe's other end is closed, which
the system does however its owner ends, every descendant is killed: also one that left the process group, and one whose
parent is gone, since orphans become children of this process. Then it ends as the command ended. SIGUSR1 is handed on.

A file of its own that imports nothing of the suite, so that it starts in milliseconds. Where there is no procfs, only
the command's process group is killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from types import FrameType

__all__ = ["descendants"]

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_PATIENCE = 10.0
"""Seconds to wait for killed processes: one in a system call of a driver dies when that returns."""


def descendants(of: int) -> dict[int, str]:
    """Process id to command name of all that `of` started, and of what these started. Empty without procfs."""
    children: dict[int, list[int]] = {}
    names: dict[int, str] = {}
    try:
        entries = os.listdir("/proc")  # noqa: PTH208 - pathlib takes as long to import as this file to start
    except OSError:
        return {}
    for entry in entries:
        if not entry.isdigit():
            continue
        # No pathlib here either.
        with (
            contextlib.suppress(OSError),
            open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file,  # noqa: PTH123
        ):
            head, _, rest = file.read().rpartition(")")
            state, parent = rest.split()[:2]
            if state != "Z":
                names[int(entry)] = head.partition("(")[2]
                children.setdefault(int(parent), []).append(int(entry))
    found: dict[int, str] = {}
    waiting = list(children.get(of, ()))
    while waiting:
        one = waiting.pop()
        if one not in found:
            found[one] = names[one]
            waiting += children.get(one, ())
    return found


def _prctl(option: int, value: int) -> None:
    with contextlib.suppress(OSError, AttributeError):  # not on Linux
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _started(command: list[str], lifeline: int) -> int:
    """The process id of the command, in a group of its own; it dies with this process."""
    guard = os.getpid()
    worker = os.fork()
    if worker:
        return worker
    try:
        os.setpgid(0, 0)
        os.close(lifeline)
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:
            os._exit(1)
        os.execv(command[0], command)
    finally:
        os._exit(127)


def _reaped(worker: int, status: int | None) -> int | None:
    """Take in ended children; the status of the command once it has ended."""
    with contextlib.suppress(ChildProcessError):
        while True:
            child, ended = os.waitpid(-1, os.WNOHANG)
            if child == 0:
                break
            if child == worker:
                status = ended
    return status


def _kill_all(worker: int, status: int | None) -> int | None:
    """Kill every descendant, until none is left. A process that forks while it is killed is met in the next round."""
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        left = descendants(os.getpid())
        with contextlib.suppress(OSError):
            os.killpg(worker, signal.SIGKILL)
        for one in left:
            with contextlib.suppress(OSError):
                os.kill(one, signal.SIGKILL)
        time.sleep(0.01)
        status = _reaped(worker, status)
        if status is not None and not descendants(os.getpid()):
            # What has ended since is taken in as well: not even a zombie is left.
            return _reaped(worker, status)
    return status


def main() -> None:
    lifeline, command = int(sys.argv[1]), sys.argv[2:]
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    ended = False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal ended
        ended = True

    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    worker = _started(command, lifeline)
    signal.signal(signal.SIGUSR1, lambda number, frame: os.kill(worker, number))
    for descriptor in range(3, 256):  # what was meant for the command
        if descriptor not in (lifeline, woken, wake):
            with contextlib.suppress(OSError):
                os.close(descriptor)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    status: int | None = None
    while status is None and not ended:
        ready, _, _ = select.select([lifeline, woken], [], [])
        ended |= lifeline in ready
        if woken in ready:
            os.read(woken, 512)
        status = _reaped(worker, status)
    status = _kill_all(worker, status)
    if status is not None and os.WIFSIGNALED(status):
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL) if os.WTERMSIG(status) != signal.SIGKILL else None
        _without_core()
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(1 if status is None else os.WEXITSTATUS(status))


def _without_core() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main()
