"""`is_pin_memory_available()`: hosts before 0.5.16 do not ask the platform."""

from __future__ import annotations

from typing import Any

from sglang_platform.core.hooks.registry import HookRegistry, HookType
from sglang_platform.core.hosts.sglang.versions import HostFacts

__all__ = ["register_hooks"]


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Answer from the platform, where the host does not ask it."""
    if host.asks_pin_memory:
        return

    def is_pin_memory_available(original: Any, device: Any = None) -> bool:
        return bool(platform.is_pin_memory_available(device))

    target = "sglang.srt.utils.common:is_pin_memory_available"
    HookRegistry.register(target, is_pin_memory_available, HookType.AROUND)
