"""The re-based platform classes, by entry-point name: what `activate()` points the host at."""

from __future__ import annotations

from typing import Any

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    from sglang_platform.core.discovery.current import host_platform_class
    from sglang_platform.core.hosts.sglang.srt.loader import become_the_only_plugin

    if name.startswith("__"):
        raise AttributeError(name)
    cls = host_platform_class(name)
    become_the_only_plugin()
    return cls
