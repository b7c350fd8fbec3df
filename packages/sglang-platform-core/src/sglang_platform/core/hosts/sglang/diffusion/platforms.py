"""The re-based platform classes of the diffusion runtime, by entry-point name: what `activate()` points it at."""

from __future__ import annotations

from typing import Any

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    from sglang_platform.core.discovery.current_diffusion import process
    from sglang_platform.core.hosts.sglang.diffusion.loader import become_the_only_plugin

    if name.startswith("__"):
        raise AttributeError(name)
    cls = process.host_platform_class(name)
    become_the_only_plugin()
    return cls
