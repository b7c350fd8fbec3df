"""The re-based platform classes as module attributes, by entry-point name. `activate()` returns a path to one."""

from __future__ import annotations

from sglang_platform.core.discovery.damaged_install import refusing_without_core

with refusing_without_core():
    from sglang_platform.core.discovery.kind import SRT
    from sglang_platform.core.sglang.start.general_plugin import load
    from sglang_platform.core.sglang.start.llm_plugin_loop import become_the_only_plugin
    from sglang_platform.core.sglang.start.platform_class import rebased_class

__all__: list[str] = []


def __getattr__(name: str) -> type:
    cls = rebased_class(SRT, name)
    become_the_only_plugin(load)
    return cls
