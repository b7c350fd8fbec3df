"""When a server process is killed: logs which one, skips the wait for CUDA core dumps, and removes shared memory.

SGLang ends all processes when one dies. But if a rank is killed, another rank often notices first, and the log shows
only that rank's error. Since 0.5.13, SGLang also waits a minute for CUDA core dumps, on every device. And it kills
Python's resource tracker with the others, although the tracker's task is to remove the shared memory of killed
processes.

The places, SGLang 0.5.11 to 0.5.23: `kill_process_tree` (`utils/common.py`), `SignalHandler`
(`managers/tokenizer_manager.py`), `SubprocessWatchdog` (`utils/watchdog.py`), and `MessageQueue`
(`distributed/device_communicators/shm_broadcast.py`).

Do not rely on the resource tracker; it may be the process that died. SGLang's schedulers always leave the shared memory
of the ranks' message queue to the tracker, even at SIGTERM, when they end before another process could inspect their
mappings. So that memory is unlinked as soon as all readers have opened it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
from collections.abc import Iterator
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, NamedTuple

from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.registration import losing_fields, soft
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]

_KILL = "sglang.srt.utils.common:kill_process_tree"
_HANDLER = "sglang.srt.managers.tokenizer_manager:SignalHandler.running_phase_sigquit_handler"
_WATCHDOG = "sglang.srt.utils.watchdog:SubprocessWatchdog._check_processes"
_QUEUE_READY = "sglang.srt.distributed.device_communicators.shm_broadcast:MessageQueue.wait_until_ready"
_CORE_DUMPS = "SGLANG_CUDA_COREDUMP_BEFORE_CRASH"

_SHARED = Path("/dev/shm")
_OF_A_TRACKER = re.compile(r"(psm|sgl_shm|multi_tokenizer_args)_\w+|sem\.mp-\w+")
"""Names of Python's and SGLang's shared memory and of Python's semaphores: exactly what a tracker removes."""
_MAPPED = re.compile(rf"^\S+ \S+ \S+ \S+ (\d+) +{_SHARED}/", re.MULTILINE)
"""The inodes in /proc/<pid>/maps. Inodes, since a semaphore is listed there under a name that no longer exists."""

_QUEUE_STAYS = "shared memory of the ranks' message queue may stay in /dev/shm after the server has ended"
_UNSAID = "the log does not say which process of the server was killed"
_DYING_SECONDS = 5.0

_logger = logging.getLogger(__name__)
_told: set[int] = set()


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Register for out-of-tree devices. SGLang's core dump variable is set only if the operator has not set it."""
    if platform.device_type != "cuda":
        os.environ.setdefault(_CORE_DUMPS, "0")
    soft(
        _QUEUE_READY, _forget_the_queues_name, HookType.AFTER,
        without=_QUEUE_STAYS,
    )  # fmt: skip
    soft(
        _KILL, _spare_the_tracker, HookType.BEFORE,
        without="shared memory may stay in /dev/shm where a process of the server was killed",
    )  # fmt: skip
    soft(
        _WATCHDOG, _note_the_told, HookType.BEFORE,
        without="a process that was killed may be named twice",
    )  # fmt: skip
    soft(
        _HANDLER, _tell, HookType.BEFORE,
        without=_UNSAID,
    )  # fmt: skip


def _forget_the_queues_name(_result: Any, queue: Any) -> None:
    """Unlink the queue's shared memory: all readers of this node have it open, so it lives until they close it."""
    with losing_fields(_forget_the_queues_name, without=_QUEUE_STAYS):
        buffer = queue.buffer  # None where a node has no readers
        if buffer is not None and buffer.is_creator:
            buffer.is_creator = False  # else its finalizer would unlink again, and fail
            with contextlib.suppress(FileNotFoundError):
                buffer.shared_memory.unlink()


def _spare_the_tracker(
    parent_pid: int | None,
    include_parent: bool = True,
    skip_pid: int | None = None,
    *others: Any,
    **named: Any,
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """If this process kills all others (and maybe itself), skip the tracker: it removes their shared memory when this
    process ends, and then ends too."""
    if parent_pid not in (None, os.getpid()) or skip_pid is not None:
        return None
    ends = include_parent and parent_pid is not None  # as SGLang takes it
    # Python has no public API for the pid. None if another process started the tracker.
    tracker: int | None = vars(resource_tracker._resource_tracker)["_pid"]
    _remove_what_a_lost_tracker_knew(tracker, ends)
    return (parent_pid, include_parent, tracker, *others), named


def _remove_what_a_lost_tracker_knew(tracker: int | None, ends: bool) -> None:
    """Unlink shared memory that a killed tracker would have removed.

    A replacement tracker that Python started is younger than the processes that hold the memory, and does not know it.
    Those processes are about to be killed (this one too if it `ends`), so none opens the memory again.
    """
    living = dict(_living())
    born = living[tracker].began if tracker in living else None
    ours = {os.getpid()}
    while more := {pid for pid, one in living.items() if one.parent in ours} - ours:
        ours |= more
    held: set[int] = set()
    for pid in ours - {tracker, None if ends else os.getpid()}:
        if born is None or living[pid].began < born:
            with contextlib.suppress(OSError):
                held.update(map(int, _MAPPED.findall(Path(f"/proc/{pid}/maps").read_text())))
    for file in _SHARED.iterdir() if held else ():
        with contextlib.suppress(OSError):
            if _OF_A_TRACKER.fullmatch(file.name) and file.stat().st_ino in held:
                file.unlink()


class _Process(NamedTuple):
    """`began`: in ticks of the system's clock."""

    parent: int
    began: int


def _living() -> Iterator[tuple[int, _Process]]:
    """The running processes from Linux's /proc; none on other systems."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, parent, *more = (folder / "stat").read_text().rpartition(")")[2].split()
            if state != "Z":  # a zombie
                yield int(folder.name), _Process(int(parent), int(more[17]))


def _note_the_told(watchdog: Any) -> None:
    """Record the dead processes, which SGLang's watchdog itself is about to log."""
    with losing_fields(_note_the_told, without=_UNSAID):
        _told.update(process.pid for process, _ in _dead(watchdog))


def _tell(handler: Any, *args: Any, **kwargs: Any) -> None:
    """Log what SGLang's handler does not: which process died, and how."""
    dead: list[tuple[Any, str]] = []
    with losing_fields(_tell, without=_UNSAID):
        watchdog = handler.tokenizer_manager._subprocess_watchdog
        if watchdog is not None:
            _wait_for_the_dying(watchdog)
            dead = _dead(watchdog)
    for process, name in dead:
        if process.pid in _told:
            continue
        code = process.exitcode
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
        _logger.error(
            "SGLang ends: its process %s (pid %d) %s, and errors of other processes follow from that. "
            "fix: if nobody killed it, look for the system's out-of-memory killer (dmesg -T | grep -i oom)",
            name, process.pid, how,
        )  # fmt: skip


def _wait_for_the_dying(watchdog: Any) -> None:
    """Wait for the exit status of a dying process.

    Linux frees its memory, then closes its connections, which other processes notice, and only then reports its exit
    status. On a busy machine that takes a moment.
    """
    for process in watchdog._processes:
        with contextlib.suppress(OSError):
            if process.exitcode is None and Path(f"/proc/{process.pid}/statm").read_text().split()[0] == "0":
                process.join(_DYING_SECONDS)


def _dead(watchdog: Any) -> list[tuple[Any, str]]:
    pairs = zip(watchdog._processes, watchdog._names, strict=False)
    return [(process, name) for process, name in pairs if process.exitcode]
