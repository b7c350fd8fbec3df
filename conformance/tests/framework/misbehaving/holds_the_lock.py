"""A platform that waits in C code and holds the interpreter's lock, so that no Python runs in its process."""

from __future__ import annotations

import ctypes
from typing import Any

from sglang_platform.conformance.reference.platform import ReferencePlatform


class Platform(ReferencePlatform):
    def get_paged_allocator_cls(self) -> Any:
        ctypes.PyDLL(None).sleep(600)
