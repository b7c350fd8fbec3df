"""The LLM runtime's loader of general plugins, `sglang.srt.plugins.load_plugins()` (0.5.11 to 0.5.23).

It collects the plugins with `load_plugins_by_group()` and calls them in the order of installation. If a platform of
ours is active, core replaces that function beforehand, so that it returns core's plugin only. SGLang then does not even
import the others.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

from sglang_platform.core.discovery.damaged_install import CORE
from sglang_platform.core.discovery.groups import GENERAL_GROUP, OWN_PLUGIN
from sglang_platform.core.sglang.start.plugin_loop import Calls, PluginLoop

__all__ = ["LOOP", "become_the_only_plugin", "call_again"]

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
    host.load_plugins = _one_thread_at_a_time(host.load_plugins)


def call_again(core_plugin: Callable[[], None]) -> None:
    """Let SGLang's next `load_plugins()` call `core_plugin`, and no other, although the last call failed."""
    become_the_only_plugin(core_plugin)
    host: Any = sys.modules[LOOP.module]
    host._plugins_loaded = False


def _one_thread_at_a_time(load_plugins: Callable[[], None]) -> Callable[[], None]:
    """Let other threads wait: SGLang returns at once while the first thread is still loading."""
    lock = threading.RLock()

    @functools.wraps(load_plugins)
    def in_turn() -> None:
        with lock:
            load_plugins()

    return in_turn
