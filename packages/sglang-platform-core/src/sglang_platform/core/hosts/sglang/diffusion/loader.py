"""Taking over the diffusion runtime's loading of general plugins, so that each runs once and by our rules.

That runtime's loader (0.5.23) asks for its platform while it collects the plugins, asks again whose plugins are
required, and then calls them in the order of installation. Where our platform is active, core empties the calls when
it is asked the second time. Elsewhere core's plugin is one among others and empties those that are still to come.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from sglang_platform.core.discovery.groups import OWN_PLUGIN
from sglang_platform.core.errors import HostError, LaunchRefused, PlatformError
from sglang_platform.core.hosts.sglang.diffusion.adapter import PLATFORMS
from sglang_platform.core.hosts.sglang.srt.loader import core_origin

__all__ = ["become_the_only_plugin", "take_over"]

_Calls = dict[str, tuple[Callable[[], Any], str | None]]


def become_the_only_plugin() -> None:
    """Make the runtime's loader, in this process, run core's general plugin and leave all others to it.

    Raises LaunchRefused where hooks that are registered already cannot be applied.
    """
    from sglang_platform.core.hooks.registry import HookRegistry

    asks = f"{PLATFORMS}:get_selected_platform_dist"
    HookRegistry.register(asks, _when_asked, source=core_origin(), required=False)
    try:
        HookRegistry.apply_hooks()
    except PlatformError as error:
        raise LaunchRefused.because(error) from error


def _when_asked(distribution: str | None) -> str | None:
    calls = _calls()
    if isinstance(calls, dict) and OWN_PLUGIN in calls:
        _leave_to_core(calls, [name for name in calls if name != OWN_PLUGIN])
    return distribution


def take_over() -> set[str]:
    """Keep the host from calling the plugins that follow; the names of those it has called already."""
    calls = _calls()
    if calls is None:
        return set()  # called by ourselves, not by the host's loop
    if not isinstance(calls, dict) or OWN_PLUGIN not in calls:
        raise HostError(
            "the diffusion runtime's plugin loader is not the one this adapter knows",
            why=f"{PLATFORMS}.plugins has no table of plugins with {OWN_PLUGIN!r} in it",
            fix="use a supported SGLang, or report this version",
        )
    names = list(calls)
    place = names.index(OWN_PLUGIN)
    before = {name for name in names[:place] if calls[name][0] is not _left_to_core}
    _leave_to_core(calls, names[place + 1 :])
    return before


def _calls() -> _Calls | None:
    """The runtime's table of the plugins that it calls, while it does."""
    frame = sys._getframe()
    while frame is not None:
        if (
            frame.f_globals.get("__name__") == f"{PLATFORMS}.plugins"
            and frame.f_code.co_name == "_register_plugins_once"
        ):
            return frame.f_locals.get("plugins", {})  # type: ignore[no-any-return]
        frame = frame.f_back  # type: ignore[assignment]
    return None


def _leave_to_core(calls: _Calls, names: list[str]) -> None:
    for name in names:
        calls[name] = (_left_to_core, calls[name][1])


def _left_to_core() -> None:
    """Stands in the host's table for a plugin that core runs."""
