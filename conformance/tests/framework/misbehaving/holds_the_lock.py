"""A platform that waits in C code and holds the interpreter's lock, so that no Python runs in its process; or that
works for `WORKS` seconds of a processor."""

from __future__ import annotations

import ctypes
import os
import time
from typing import Any

from sglang_platform.conformance.reference.platform import ReferencePlatform


class Platform(ReferencePlatform):
    def get_paged_allocator_cls(self) -> Any:
        if "WORKS" in os.environ:
            started = time.thread_time()
            while time.thread_time() - started < float(os.environ["WORKS"]):
                pass
        else:
            ctypes.PyDLL(None).sleep(600)
        return super().get_paged_allocator_cls()
