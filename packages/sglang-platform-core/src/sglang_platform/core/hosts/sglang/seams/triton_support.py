"""`capabilities.supports_triton`: hosts before 0.5.22 do not read it."""

from __future__ import annotations

from typing import Any

from sglang_platform.core.hooks.registry import HookRegistry, HookType
from sglang_platform.core.hosts.sglang.versions import HostFacts

__all__ = ["register_hooks"]


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Where the host does not read the capability, deny it Triton on a platform that has none."""
    if host.asks_triton:
        return

    def support_triton(original: Any, backend: str) -> bool:
        return bool(platform.capabilities.supports_triton) and bool(original(backend))

    HookRegistry.register("sglang.srt.utils.common:support_triton", support_triton, HookType.AROUND)
