"""The LLM runtime's loader of general plugins, `sglang.srt.plugins.load_plugins()` (0.5.11 to 0.5.23).

It collects the plugins with `load_plugins_by_group()` and calls them in the order of installation. If a platform of
ours is active, core replaces that function beforehand, so that it returns core's plugin only. SGLang then does not even
import the others.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from sglang_platform.core.discovery.damaged_install import CORE
from sglang_platform.core.discovery.groups import GENERAL_GROUP, OWN_PLUGIN
from sglang_platform.core.sglang.start.plugin_loop import Calls, PluginLoop

__all__ = ["LOOP", "become_the_only_plugin"]

LOOP = PluginLoop("sglang.srt.plugins", "load_plugins_by_group", "load_plugins")


def become_the_only_plugin(core_plugin: Callable[[], None]) -> None:
    """Make SGLang's loader in this process call `core_plugin` only, which loads all others."""
    host: Any = sys.modules[LOOP.module]
    collect = host.load_plugins_by_group
    if getattr(collect, "_collects_for_core", False):
        return

    def load_plugins_by_group(group: str, *args: Any, **kwargs: Any) -> Calls:
        if group != GENERAL_GROUP:
            return collect(group, *args, **kwargs)  # type: ignore[no-any-return]
        return {OWN_PLUGIN: (core_plugin, CORE)}

    load_plugins_by_group._collects_for_core = True  # type: ignore[attr-defined]
    host.load_plugins_by_group = load_plugins_by_group
