"""Taking over SGLang's loading of general plugins, so that each runs once and by our rules.

The host's `load_plugins()` (0.5.11 to 0.5.23) collects the plugins with `load_plugins_by_group()`, calls them in the
order of installation, and logs what they raise. Where our platform is active, core knows before that, and makes the
host collect core's own plugin alone. Elsewhere core's plugin is one among others: when its turn comes, it empties the
calls that are still to come.
"""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from sglang_platform.core.discovery.groups import GENERAL_GROUP, OWN_PLUGIN
from sglang_platform.core.errors import HostError, PluginOrigin

__all__ = ["become_the_only_plugin", "core_origin", "take_over"]

_DISTRIBUTION = "sglang-platform-core"


def become_the_only_plugin() -> None:
    """Make the host's loader, in this process, run core's general plugin and leave all others to it."""
    host: Any = sys.modules["sglang.srt.plugins"]
    collect = host.load_plugins_by_group
    if getattr(collect, "_collects_for_core", False):
        return

    def load_plugins_by_group(
        group: str, *args: Any, **kwargs: Any
    ) -> dict[str, tuple[Callable[[], None], str]]:
        if group != GENERAL_GROUP:
            return collect(group, *args, **kwargs)  # type: ignore[no-any-return]
        from sglang_platform.core.hosts.sglang.srt.plugin import load

        return {OWN_PLUGIN: (load, _DISTRIBUTION)}

    load_plugins_by_group._collects_for_core = True  # type: ignore[attr-defined]
    host.load_plugins_by_group = load_plugins_by_group


def core_origin() -> PluginOrigin:
    """Core itself, as the plugin that it is to the host."""
    try:
        version = importlib.metadata.version(_DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:  # run from its source folder
        version = None
    return PluginOrigin(OWN_PLUGIN, _DISTRIBUTION, version)


def take_over() -> set[str]:
    """Keep the host from calling the plugins that follow; return the names of those it has called already."""
    frame = _host_loop()
    if frame is None:
        return set()  # called by ourselves, not by the host's loop
    plugins = frame.f_locals.get("plugins")
    if not isinstance(plugins, dict) or OWN_PLUGIN not in plugins:
        raise HostError(
            "SGLang's plugin loader is not the one this adapter knows",
            why=f"{frame.f_code.co_filename}:{frame.f_lineno} has no table of loaded plugins with {OWN_PLUGIN!r} in it",
            fix="use a supported SGLang, or report this version",
        )
    names = list(plugins)
    before, after = names[: names.index(OWN_PLUGIN)], names[names.index(OWN_PLUGIN) + 1 :]
    for name in after:
        _, distribution = plugins[name]
        plugins[name] = (_left_to_core, distribution)
    return set(before)


def _left_to_core() -> None:
    """Stands in the host's table for a plugin that core runs."""


def _host_loop() -> FrameType | None:
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == "sglang.srt.plugins" and frame.f_code.co_name == "load_plugins":
            return frame
        frame = frame.f_back
    return None
