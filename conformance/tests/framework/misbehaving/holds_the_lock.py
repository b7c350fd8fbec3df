"""A platform that waits in C code and holds the interpreter's lock, so that no Python runs in its process; or works
without an end."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from sglang_platform.conformance.reference.platform import ReferencePlatform


class Platform(ReferencePlatform):
    def get_paged_allocator_cls(self) -> Any:
        while "WORKS" in os.environ:
            pass
        ctypes.PyDLL(None).sleep(600)
