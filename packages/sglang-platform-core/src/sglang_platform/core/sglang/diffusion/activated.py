"""The diffusion runtime's re-based platform classes as module attributes; `activate()` returns a path to one."""

from __future__ import annotations

from sglang_platform.core.discovery.kind import DIFFUSION
from sglang_platform.core.sglang.diffusion import plugin_loop
from sglang_platform.core.sglang.start.platform_class import rebased_class

__all__: list[str] = []


def __getattr__(name: str) -> type:
    cls = rebased_class(DIFFUSION, name)
    plugin_loop.become_the_only_plugin()
    return cls
