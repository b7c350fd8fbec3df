"""A platform that prints to every open file, as a daemon of a driver may that closes what it did not open."""

from __future__ import annotations

import contextlib
import os
from typing import Any

from sglang_platform.conformance.reference.platform import ReferencePlatform


def _print() -> None:
    for descriptor in range(1, 20):
        with contextlib.suppress(OSError):
            os.write(descriptor, b'\xff\xfe{"outcome": nothing\n[1]\ndriver 3.1\n')


_print()


class Platform(ReferencePlatform):
    def get_paged_allocator_cls(self) -> Any:
        _print()
        return super().get_paged_allocator_cls()
