"""A server or an engine that is killed with all that it started leaves no process, no shared memory, no semaphore."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest

from sglang_platform.conformance.guard import descendants
from sglang_platform.conformance.host.stacks import kill_group, kill_tree

pytestmark = pytest.mark.timeout(60)

PROGRAM = Path(__file__).with_name("programs") / "share_memory.py"


@pytest.mark.parametrize("how", ["a tree", "a group", "a group whose leader is gone"])
def test_nothing_is_left(how: str) -> None:
    command = [sys.executable, PROGRAM]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        names = process.stdout.readline().split()
        assert len(names) == 2
        started = descendants(process.pid)
        assert len(started) == 2  # the child and the tracker
        assert all(Path("/dev/shm", name).exists() for name in names)
        if how.endswith("gone"):
            process.kill()
            process.wait()
        kill = kill_tree if how == "a tree" else kill_group
        kill(process.pid)
    assert not [one for one in started if runs(one)]
    assert not [name for name in names if Path("/dev/shm", name).exists()]


def runs(pid: int) -> bool:
    """Of a process that has ended, waited for or not, there is no command line."""
    with contextlib.suppress(OSError):
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    return False
