"""SGLang's message queue between ranks, with both ends in one process: the name of its shared memory once both have it.

`python -m ...versions.message_queue` in the environment of one version; exit status 1 where the name is still there. Of
SGLang it imports the queue and the loader of plugins alone: some releases then have not asked for a platform yet, and
core's hooks must be in force all the same.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

__all__ = ["main", "name_left"]

_SECONDS = 30


def name_left() -> tuple[str, bool]:
    """The name of a queue's shared memory, and whether another process could still open it.

    Raises RuntimeError where the queue does not carry what is sent.
    """
    from sglang.srt.distributed.device_communicators.shm_broadcast import MessageQueue
    from sglang.srt.plugins import load_plugins

    load_plugins()
    writer = MessageQueue(n_reader=1, n_local_reader=1, max_chunk_bytes=1 << 16, max_chunks=2)
    reader = MessageQueue.create_from_handle(writer.export_handle(), 0)
    waiting = threading.Thread(target=reader.wait_until_ready, daemon=True)
    waiting.start()
    writer.wait_until_ready()
    waiting.join(_SECONDS)
    writer.enqueue("sent")
    if (received := reader.dequeue()) != "sent":
        raise RuntimeError(f"the queue gave {received!r}")
    name: str = writer.buffer.shared_memory.name
    return name, Path("/dev/shm", name.lstrip("/")).exists()


def main() -> None:
    name, left = name_left()
    print(f"{name} {'can be opened by its name' if left else 'has no name any more'}")
    sys.exit(left)


if __name__ == "__main__":
    main()
