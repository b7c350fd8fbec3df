"""The LLM runtime's own part of the guard: what core does before, and where, the platforms are compared."""

from __future__ import annotations

import importlib
from typing import Any

from sglang_platform.core.discovery import current
from sglang_platform.core.discovery.kind import SRT
from sglang_platform.core.errors import LaunchRefused
from sglang_platform.core.sglang.device import stubs
from sglang_platform.core.sglang.start import guard

__all__ = ["check_platform"]


def check_platform() -> None:
    """As `sglang.start.guard.check_platform`; no stub of ours stays where the host ended on another platform."""
    host: Any = importlib.import_module(SRT.host.platform_module)
    if current.decide().origin is not None and host._current_platform is None:
        # The host has not asked yet, and might not find a plugin that was named without being installed.
        host._current_platform = current.current_platform
    try:
        guard.check_platform(SRT)
    except LaunchRefused:
        stubs.withdraw()
        raise
