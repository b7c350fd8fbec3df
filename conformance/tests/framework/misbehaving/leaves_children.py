"""A platform that starts daemons, which no longer belong to its process group and ignore SIGTERM, and then hangs.

Their process ids stand in $CHILDREN.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from sglang_platform.conformance.reference.platform import ReferencePlatform


def _daemon() -> None:
    if os.fork():
        os.wait()
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with Path(os.environ["CHILDREN"]).open("a") as file:
        file.write(f"{os.getpid()}\n")
    time.sleep(600)
    os._exit(0)


class Platform(ReferencePlatform):
    def get_paged_allocator_cls(self) -> Any:
        _daemon()
        _daemon()
        time.sleep(600)
