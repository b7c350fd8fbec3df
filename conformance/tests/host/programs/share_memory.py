"""A process and its child that share memory and a semaphore; told by name, then both wait."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.shared_memory import SharedMemory


def main() -> None:
    spawn = multiprocessing.get_context("spawn")
    shared = SharedMemory(create=True, size=64)
    lock = spawn.Lock()
    spawn.Process(target=time.sleep, args=(600,), daemon=True).start()
    print(shared.name.lstrip("/"), f"sem.{vars(lock)['_semlock'].name[1:]}", flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main()
