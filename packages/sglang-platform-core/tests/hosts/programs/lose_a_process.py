"""A launcher as SGLang's, one of whose processes is killed while it holds shared memory; it ends as SGLang's does."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import time
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory
from types import SimpleNamespace


def hold(to: Connection) -> None:
    to.send(SharedMemory(create=True, size=64).name)
    time.sleep(600)


def main(noticed_by: str) -> None:
    from sglang.srt.managers.tokenizer_manager import SignalHandler
    from sglang.srt.plugins import load_plugins
    from sglang.srt.utils.watchdog import SubprocessWatchdog

    load_plugins()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    processes = [spawn.Process(target=hold, args=(theirs,)) for _ in range(2)]
    for process in processes:
        process.start()
        print("holds", ours.recv(), flush=True)
    watchdog = SubprocessWatchdog(processes, ["scheduler_0", "scheduler_1"])
    manager = SimpleNamespace(_subprocess_watchdog=watchdog, dump_requests_before_crash=lambda: None)
    handler = SignalHandler(manager)
    signal.signal(signal.SIGQUIT, handler.running_phase_sigquit_handler)
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
