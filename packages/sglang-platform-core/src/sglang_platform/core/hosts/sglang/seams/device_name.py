"""`get_device_name()` of the host: it knows five kinds of device, and answers None for any other.

Its callers look up tuning tables by the name, and fail on None.
"""

from __future__ import annotations

from typing import Any

from sglang_platform.core.hooks.registry import HookRegistry, HookType
from sglang_platform.core.hosts.sglang.versions import HostFacts

__all__ = ["register_hooks"]


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Answer with the platform's name of the device, where it is out of tree."""
    if not platform.is_out_of_tree():
        return

    def get_device_name(device_id: int = 0) -> str:
        return str(platform.get_device_name(device_id))

    HookRegistry.register("sglang.srt.utils.common:get_device_name", get_device_name, HookType.REPLACE)
