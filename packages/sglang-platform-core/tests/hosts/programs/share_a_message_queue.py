"""Two ranks with SGLang's message queue between them, which works; both and Python's resource tracker are killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path


def rank(number: int, store: str, to: Connection) -> None:
    import torch.distributed as dist
    from sglang.srt.distributed.device_communicators.shm_broadcast import MessageQueue
    from sglang.srt.plugins import load_plugins

    load_plugins()
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=number, world_size=2)
    queue = MessageQueue.create_from_process_group(dist.group.WORLD, 1 << 16, 2)
    for turn in range(5):  # twice around the ring, and one that does not fit into a chunk of it
        sent = "a" * (1 << turn * 5)
        assert queue.broadcast_object(sent if number == 0 else None) == sent
    to.send(queue.buffer.shared_memory.name)
    to.recv()


def main(store: str) -> None:
    spawn = multiprocessing.get_context("spawn")
    pipes = [spawn.Pipe() for _ in range(2)]
    ranks = [spawn.Process(target=rank, args=(one, store, pipes[one][1])) for one in range(2)]
    for process in ranks:
        process.start()
    (name,) = {ours.recv() for ours, _ in pipes}
    print("shares", name.lstrip("/"), flush=True)
    mapped = {Path(f"/proc/{process.pid}/maps").read_text().count(name) > 0 for process in ranks}
    assert mapped == {True}, "Linux does not show what the ranks share"
    for pid in (vars(resource_tracker._resource_tracker)["_pid"], *(process.pid for process in ranks)):
        os.kill(pid, signal.SIGKILL)
    for process in ranks:
        process.join()


if __name__ == "__main__":
    main(sys.argv[1])
