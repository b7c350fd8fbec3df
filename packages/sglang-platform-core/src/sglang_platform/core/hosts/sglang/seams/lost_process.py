"""A server of which one process is killed: it says which, waits for no core dump of CUDA, and leaves no shared memory.

SGLang ends all processes when one is gone. But where a rank is killed another rank often notices first: then its error
is all that is said. From 0.5.13 on SGLang waits a minute for core dumps of CUDA, on every device. And it kills
Python's resource tracker with the others, which is there to remove the shared memory of killed processes.
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

from sglang_platform.core.hooks.registry import HookRegistry, HookType
from sglang_platform.core.hosts.sglang.versions import HostFacts

__all__ = ["register_hooks"]

_KILL = "sglang.srt.utils.common:kill_process_tree"
_HANDLER = "sglang.srt.managers.tokenizer_manager:SignalHandler.running_phase_sigquit_handler"
_WATCHDOG = "sglang.srt.utils.watchdog:SubprocessWatchdog._check_processes"
_CORE_DUMPS = "SGLANG_CUDA_COREDUMP_BEFORE_CRASH"

_MAPPED = re.compile(r"/dev/shm/psm_\w+$", re.MULTILINE)
"""Python's shared memory by name, in what a process of Linux has mapped."""

_logger = logging.getLogger(__name__)
_told: set[int] = set()


def register_hooks(platform: Any, host: HostFacts) -> None:
    """For every device; whoever sets SGLang's variable for core dumps is heard."""
    if platform.device_type != "cuda":
        os.environ.setdefault(_CORE_DUMPS, "0")
    HookRegistry.register(_KILL, _spare_the_tracker, HookType.BEFORE)
    HookRegistry.register(_WATCHDOG, _note_the_told, HookType.BEFORE)
    HookRegistry.register(_HANDLER, _tell, HookType.BEFORE)


def _spare_the_tracker(
    parent_pid: int | None,
    include_parent: bool = True,
    skip_pid: int | None = None,
    *others: Any,
    **named: Any,
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Where this process ends itself with all others, the tracker removes what they leave, and ends then."""
    if parent_pid != os.getpid() or not include_parent or skip_pid is not None:
        return None
    # Python has no public name for it. None where another process started the tracker.
    tracker: int | None = vars(resource_tracker._resource_tracker)["_pid"]
    _remove_what_a_lost_tracker_knew(tracker)
    return (parent_pid, include_parent, tracker, *others), named


def _remove_what_a_lost_tracker_knew(tracker: int | None) -> None:
    """Where the tracker itself was killed, nobody else removes it. One that Python began in its place is younger than
    the processes that hold memory, and knows nothing of theirs. They are about to be killed: none opens it any more."""
    living = dict(_living())
    born = living[tracker].began if tracker in living else None
    ours = {os.getpid()}
    while more := {pid for pid, one in living.items() if one.parent in ours} - ours:
        ours |= more
    for pid in ours - {os.getpid(), tracker}:
        if born is None or living[pid].began < born:
            with contextlib.suppress(OSError):
                for name in set(_MAPPED.findall(Path(f"/proc/{pid}/maps").read_text())):
                    Path(name).unlink(missing_ok=True)


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
    _told.update(process.pid for process, _ in _dead(watchdog))


def _tell(handler: Any, *args: Any, **kwargs: Any) -> None:
    """What the handler does not say: which process is gone, and how."""
    watchdog = handler.tokenizer_manager._subprocess_watchdog
    for process, name in _dead(watchdog) if watchdog is not None else ():
        if process.pid in _told:
            continue
        code = process.exitcode
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
        _logger.error(
            "SGLang ends: its process %s (pid %d) %s, and errors of other processes follow from that. "
            "fix: if nobody killed it, look for the system's out-of-memory killer (dmesg -T | grep -i oom)",
            name, process.pid, how,
        )  # fmt: skip


def _dead(watchdog: Any) -> list[tuple[Any, str]]:
    pairs = zip(watchdog._processes, watchdog._names, strict=False)
    return [(process, name) for process, name in pairs if process.exitcode]
