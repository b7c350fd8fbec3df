"""A platform whose checks take as long as they are told, and tell the process that runs them."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

from sglang_platform.conformance.reference.platform import ReferencePlatform


class Slow(ReferencePlatform):
    """In its factory of allocators: writes its process and one that it starts to $SLOW_PIDS, then waits as long as
    $SLOW_SECONDS says."""

    def get_paged_allocator_cls(self) -> Any:
        seconds = os.environ.get("SLOW_SECONDS")
        if seconds:
            child = subprocess.Popen(["sleep", "600"], start_new_session=True)
            with Path(os.environ["SLOW_PIDS"]).open("a") as file:
                file.write(f"{os.getpid()}\n{child.pid}\n")
            time.sleep(float(seconds))
        return super().get_paged_allocator_cls()
