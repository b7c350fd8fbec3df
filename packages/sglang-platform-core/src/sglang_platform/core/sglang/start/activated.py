"""The re-based platform classes as module attributes, by entry-point name. `activate()` returns a path to one."""

from __future__ import annotations

from sglang_platform.core.discovery.damaged_install import refusing_without_core

with refusing_without_core():
    from sglang_platform.core.discovery.kind import SRT
    from sglang_platform.core.sglang.start import general_plugin as plugin
    from sglang_platform.core.sglang.start import llm_plugin_loop as loader
    from sglang_platform.core.sglang.start.platform_class import rebased_class

__all__: list[str] = []


def __getattr__(name: str) -> type:
    cls = rebased_class(SRT, name)
    loader.become_the_only_plugin(plugin.load)
    return cls
