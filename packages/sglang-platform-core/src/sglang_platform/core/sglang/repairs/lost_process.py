"""A server of which one process is killed: it says which, waits for no core dump of CUDA, and leaves no shared memory.

SGLang ends all processes when one is gone. But where a rank is killed another rank often notices first: then its error
is all that is said. From 0.5.13 on SGLang waits a minute for core dumps of CUDA, on every device. And it kills
Python's resource tracker with the others, which is there to remove the shared memory of killed processes.

The places, SGLang 0.5.11 to 0.5.23: `kill_process_tree` (`utils/common.py`), `SignalHandler`
(`managers/tokenizer_manager.py`), `SubprocessWatchdog` (`utils/watchdog.py`), and `MessageQueue`
(`distributed/device_communicators/shm_broadcast.py`).

Of the tracker nothing may depend where it can be had otherwise, since it may be the one that is killed: the ranks'
message queue is shared memory that SGLang's schedulers leave to the tracker at every end, at SIGTERM too, when they end
before anybody else could look at what they hold.
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
"""Shared memory as Python and SGLang name it, and Python's semaphores: what a tracker removes, and nothing else."""
_MAPPED = re.compile(rf"^\S+ \S+ \S+ \S+ (\d+) +{_SHARED}/", re.MULTILINE)
"""The inodes of what a process of Linux has mapped: of a semaphore it shows a name that is gone."""

_QUEUE_STAYS = "shared memory of the ranks' message queue may stay in /dev/shm after the server has ended"
_UNSAID = "the log does not say which process of the server was killed"
_DYING_SECONDS = 5.0

_logger = logging.getLogger(__name__)
_told: set[int] = set()


def register_hooks(platform: Any, host: HostFacts) -> None:
    """For every device; whoever sets SGLang's variable for core dumps is heard."""
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
    """Every reader of this node has the memory open by now, and nobody else opens it: it ends with who has it open."""
    with losing_fields(_forget_the_queues_name, without=_QUEUE_STAYS):
        buffer = queue.buffer  # None where a node has no readers
        if buffer is not None and buffer.is_creator:
            buffer.is_creator = False  # else it removes it again when it is freed, and fails
            with contextlib.suppress(FileNotFoundError):
                buffer.shared_memory.unlink()


def _spare_the_tracker(
    parent_pid: int | None,
    include_parent: bool = True,
    skip_pid: int | None = None,
    *others: Any,
    **named: Any,
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Where this process kills all others, and itself with them or not, the tracker removes what they leave when this
    one ends, and ends then."""
    if parent_pid not in (None, os.getpid()) or skip_pid is not None:
        return None
    ends = include_parent and parent_pid is not None  # as SGLang takes it
    # Python has no public name for it. None where another process started the tracker.
    tracker: int | None = vars(resource_tracker._resource_tracker)["_pid"]
    _remove_what_a_lost_tracker_knew(tracker, ends)
    return (parent_pid, include_parent, tracker, *others), named


def _remove_what_a_lost_tracker_knew(tracker: int | None, ends: bool) -> None:
    """Where the tracker itself was killed, nobody else removes it. One that Python began in its place is younger than
    the processes that hold memory, and knows nothing of theirs. They are about to be killed, this one too if it `ends`:
    none opens it any more."""
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
    """The processes that run, as Linux tells; none on other systems."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, parent, *more = (folder / "stat").read_text().rpartition(")")[2].split()
            if state != "Z":  # dead, and not waited for
                yield int(folder.name), _Process(int(parent), int(more[17]))


def _note_the_told(watchdog: Any) -> None:
    """SGLang's watchdog names the dead that it finds."""
    with losing_fields(_note_the_told, without=_UNSAID):
        _told.update(process.pid for process, _ in _dead(watchdog))


def _tell(handler: Any, *args: Any, **kwargs: Any) -> None:
    """What the handler does not say: which process is gone, and how."""
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
    """Linux takes a process's memory, then closes its connections, by which others notice, and then tells how it ended.
    On a busy machine that takes a moment."""
    for process in watchdog._processes:
        with contextlib.suppress(OSError):
            if process.exitcode is None and Path(f"/proc/{process.pid}/statm").read_text().split()[0] == "0":
                process.join(_DYING_SECONDS)


def _dead(watchdog: Any) -> list[tuple[Any, str]]:
    pairs = zip(watchdog._processes, watchdog._names, strict=False)
    return [(process, name) for process, name in pairs if process.exitcode]
