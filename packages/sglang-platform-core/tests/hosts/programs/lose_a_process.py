"""A launcher as SGLang's, one of whose processes is killed while it holds shared memory; it ends as SGLang's does.

`another rank, while it dies`: its connections are closed, and nobody can wait for it yet.
`nobody`: it kills the others and lives on, as `Engine.shutdown` does.
"""

from __future__ import annotations

import ctypes
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from types import SimpleNamespace


def hold(to: Connection, name: str | None) -> None:
    held = SharedMemory(name, create=True, size=64)
    lock = multiprocessing.get_context("spawn").Lock()
    to.send((held.name, f"sem.{vars(lock)['_semlock'].name[1:]}"))
    time.sleep(600)


def lose_its_memory(process: multiprocessing.process.BaseProcess) -> None:
    while Path(f"/proc/{process.pid}/statm").read_text().split()[0] != "0":
        time.sleep(0.01)


def hold_on(to: Connection, name: str | None) -> None:
    """As a process whose end takes long: its first thread is gone, and for Linux it has no memory any more."""
    threading.Thread(target=hold, args=(to, name)).start()
    ctypes.CDLL(None).pthread_exit(None)


def main(noticed_by: str) -> None:
    from sglang.srt.managers.tokenizer_manager import SignalHandler
    from sglang.srt.plugins import load_plugins
    from sglang.srt.utils import common
    from sglang.srt.utils.watchdog import SubprocessWatchdog

    load_plugins()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    names = (None, f"sgl_shm_mm_{os.getpid()}_01234567")
    dies_slowly = noticed_by.endswith("while it dies")
    ends = (hold, hold_on if dies_slowly else hold)
    processes = [spawn.Process(target=end, args=(theirs, n)) for end, n in zip(ends, names, strict=True)]
    for process in processes:
        process.start()
        for held in ours.recv():
            print("holds", held, flush=True)
    own = SharedMemory(create=True, size=64)
    print("holds", own.name, flush=True)
    if noticed_by == "nobody":
        own.close()
        own.unlink()
        common.kill_process_tree(os.getpid(), include_parent=False)
        return
    watchdog = SubprocessWatchdog(processes, ["scheduler_0", "scheduler_1"])
    manager = SimpleNamespace(_subprocess_watchdog=watchdog, dump_requests_before_crash=lambda: None)
    handler = SignalHandler(manager)
    signal.signal(signal.SIGQUIT, handler.running_phase_sigquit_handler)
    if dies_slowly:
        lose_its_memory(processes[1])
        threading.Timer(1, os.kill, (processes[1].pid, signal.SIGKILL)).start()
    else:
        os.kill(processes[1].pid, signal.SIGKILL)
        processes[1].join()
    print("killed", processes[1].pid, flush=True)
    print("core dumps", os.environ.get("SGLANG_CUDA_COREDUMP_BEFORE_CRASH"), flush=True)
    if noticed_by == "watchdog":
        watchdog.start()
    else:  # another process noticed it, and sent the signal
        os.kill(os.getpid(), signal.SIGQUIT)
    time.sleep(60)


if __name__ == "__main__":
    main(sys.argv[1])
