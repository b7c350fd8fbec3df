"""When a server process is killed: logs which one, skips the wait for CUDA core dumps, and removes shared memory.

SGLang ends all processes when one dies. But if a rank is killed, another rank often notices first, and the log shows
only that rank's error. Since 0.5.13, SGLang also waits a minute for CUDA core dumps, on every device. And it kills
Python's resource tracker with the others, although the tracker's task is to remove the shared memory of killed
processes.

The places, SGLang 0.5.11 to 0.5.23: `kill_process_tree` (`utils/common.py`), `SignalHandler`
(`managers/tokenizer_manager.py`), and `MessageQueue` (`distributed/device_communicators/shm_broadcast.py`).

SGLang's schedulers always leave the shared memory of the ranks' message queue to the tracker, even at SIGTERM. So that
memory, the largest, is unlinked as soon as all readers have opened it, and stays nowhere if the tracker is killed too.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.registration import losing_fields, soft
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]

_KILL = "sglang.srt.utils.common:kill_process_tree"
_HANDLER = "sglang.srt.managers.tokenizer_manager:SignalHandler.running_phase_sigquit_handler"
_QUEUE_READY = "sglang.srt.distributed.device_communicators.shm_broadcast:MessageQueue.wait_until_ready"
_CORE_DUMPS = "SGLANG_CUDA_COREDUMP_BEFORE_CRASH"

_QUEUE_STAYS = "shared memory of the ranks' message queue may stay in /dev/shm after the server has ended"
_UNSAID = "the log does not say which process of the server was killed"
_DYING_SECONDS = 5.0

_logger = logging.getLogger(__name__)


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
    # Python has no public API for the pid. None if another process started the tracker.
    tracker: int | None = vars(resource_tracker._resource_tracker)["_pid"]
    return (parent_pid, include_parent, tracker, *others), named


def _tell(handler: Any, *args: Any, **kwargs: Any) -> None:
    """Log what SGLang's handler does not: which process died, and how."""
    dead: list[tuple[Any, str]] = []
    with losing_fields(_tell, without=_UNSAID):
        watchdog = handler.tokenizer_manager._subprocess_watchdog
        if watchdog is not None:
            _wait_for_the_dying(watchdog)
            dead = _dead(watchdog)
    for process, name in dead:
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
