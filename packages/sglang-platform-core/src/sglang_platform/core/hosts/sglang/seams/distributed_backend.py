"""`get_torch_distributed_backend_str()`: hosts before 0.5.14 do not ask an out-of-tree platform."""

from __future__ import annotations

from typing import Any

from sglang_platform.core.hooks.registry import HookRegistry, HookType
from sglang_platform.core.hosts.sglang.versions import HostFacts

__all__ = ["register_hooks"]


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Answer for the device type of an out-of-tree platform, where the host does not ask it."""
    if host.asks_distributed_backend or not platform.is_out_of_tree():
        return

    def get_default_distributed_backend(original: Any, device: str) -> str:
        own = device == platform.device_type
        return str(platform.get_torch_distributed_backend_str() if own else original(device))

    HookRegistry.register(
        "sglang.srt.distributed.parallel_state:get_default_distributed_backend",
        get_default_distributed_backend,
        HookType.AROUND,
    )
