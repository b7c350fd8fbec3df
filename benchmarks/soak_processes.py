"""The processes of a server as Linux shows them: which they are, their memory, and the shared memory they hold."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path

from sglang_platform.conformance.host.server import ServerProcess

__all__ = [
    "ENDING_SECONDS", "LEFT_BY_SGLANG", "TRACKER", "MemoryWatch", "ended", "left_of", "processes_of",
    "shared_memory_of",
]  # fmt: skip

ENDING_SECONDS = 30.0

TRACKER = "resource tracker"
"""How Python's is named here."""

_SHARED = "/dev/shm/"
LEFT_BY_SGLANG = _SHARED + "sglang_loads_"
"""Where SGLang's schedulers tell their load. SGLang removes it at no end, on no device: it ends its processes with
SIGKILL, and sweeps what is left in its own CI alone (`srt/utils/stale_shm_cleanup.py`). Reported, and no fault here."""


def processes_of(server: ServerProcess) -> dict[int, str]:
    """Every process that the server started, by what it is for: those of its session, and those that carry its report
    folder in their environment, whatever parent they have by now. A zombie is none.

    Either alone misses some: a process may begin a session, and one that names itself overwrites its environment.
    """
    mark, found = str(server.report_dir).encode(), {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # a process may end while it is read
            state, _parent, _group, session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            ours = int(session) == server.process.pid or mark in (folder / "environ").read_bytes()
            if ours and state not in "ZX":
                found[int(folder.name)] = _name(folder, server.process.pid)
    return dict(sorted(found.items()))


def ended(server: ServerProcess) -> tuple[float | None, dict[int, str]]:
    """Seconds until no process is left after SIGTERM, None where some are; and those."""
    server.process.terminate()
    start = time.monotonic()
    while time.monotonic() - start < ENDING_SECONDS:
        server.process.poll()
        if not processes_of(server):
            return round(time.monotonic() - start, 1), {}
        time.sleep(0.1)
    return None, processes_of(server)


def _name(folder: Path, leader: int) -> str:
    if int(folder.name) == leader:
        return "server"
    command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    if "resource_tracker" in command:
        return TRACKER
    return command.split(" ")[0].replace("sglang::", "") if command.startswith("sglang::") else command[-40:]


def _resident(pid: int) -> float:
    """MiB."""
    pages = int((Path(f"/proc/{pid}") / "statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def shared_memory_of(pids: list[int]) -> set[str]:
    """The files under /dev/shm that these processes have mapped, told by inode: of a semaphore, Linux shows the name
    under which it was made, and that is gone."""
    inodes, found = set(), set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
                if _SHARED in line:
                    inodes.add(int(line.split()[4]))
    for file in Path(_SHARED).iterdir():
        with contextlib.suppress(OSError):
            if file.stat().st_ino in inodes:
                found.add(str(file))
    return found


def left_of(files: set[str]) -> list[str]:
    """Those that still exist."""
    return sorted(one for one in files if Path(one).exists())


class MemoryWatch:
    """Resident memory of each process of a server, every `every` seconds, and all shared memory that they ever held."""

    def __init__(self, server: ServerProcess, every: float = 2.0) -> None:
        self.rows: list[dict[str, float]] = []
        self.shared: set[str] = set()
        self._server, self._every = server, every
        self._stopped, self._start = threading.Event(), time.monotonic()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stopped.is_set():
            names = processes_of(self._server)
            self.shared |= shared_memory_of(list(names))
            row = {"seconds": round(time.monotonic() - self._start, 1)}
            for pid, name in names.items():
                with contextlib.suppress(OSError):
                    row[f"{name} ({pid})"] = round(_resident(pid), 1)
            self.rows.append(row)
            self._stopped.wait(self._every)

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()
