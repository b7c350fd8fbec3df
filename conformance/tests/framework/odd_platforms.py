"""Platforms that do to their process what a real one may do."""

from __future__ import annotations

import ctypes
import time
from typing import Any

from sglang_platform.conformance.reference.platform import ReferencePlatform


class Crashes(ReferencePlatform):
    def get_paged_allocator_cls(self) -> Any:
        ctypes.string_at(0)


class Hangs(ReferencePlatform):
    def get_paged_allocator_cls(self) -> Any:
        time.sleep(600)


class Raises(ReferencePlatform):
    def get_paged_allocator_cls(self) -> Any:
        return {}["no such block size"]


class Exits(ReferencePlatform):
    def get_paged_allocator_cls(self) -> Any:
        raise SystemExit("the driver is too old")


class Talks(ReferencePlatform):
    def get_paged_allocator_cls(self) -> Any:
        print("driver 3.1 loaded")
        return super().get_paged_allocator_cls()
