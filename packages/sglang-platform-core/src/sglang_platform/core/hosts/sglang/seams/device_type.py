"""A device type of one's own: hosts up to 0.5.12 know a fixed list of types, and ask torch for the default one."""

from __future__ import annotations

from typing import Any

from sglang_platform.core.hooks.registry import HookRegistry, HookType
from sglang_platform.core.hosts.sglang.versions import HostFacts

__all__ = ["register_hooks"]


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Make an out-of-tree platform's device type known, and its device the default one."""
    if host.asks_device or not platform.is_out_of_tree():
        return

    def get_device(original: Any, device_id: int | None = None) -> str:
        return str(platform.get_device(device_id))

    def allow(config: Any, *args: Any, **kwargs: Any) -> None:
        from sglang.srt.configs import device_config

        if platform.device_type not in device_config.SUPPORTED_DEVICES:
            device_config.SUPPORTED_DEVICES.append(platform.device_type)

    HookRegistry.register("sglang.srt.utils.common:get_device", get_device, HookType.AROUND)
    HookRegistry.register("sglang.srt.configs.device_config:DeviceConfig.__init__", allow, HookType.BEFORE)
