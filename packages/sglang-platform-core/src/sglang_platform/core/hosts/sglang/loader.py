"""Taking over SGLang's loop over general plugins, so that each runs once and by our rules.

The host's `load_plugins()` (0.5.11 to 0.5.23) first imports all plugins into a local dict, then calls them in order
and swallows what they raise. Ours is one of them; when its turn comes, it empties the calls that are still to come.
"""

from __future__ import annotations

import sys
from types import FrameType

from sglang_platform.core.errors import HostError

__all__ = ["take_over"]

_OURS = "sglang_platform_core"


def take_over() -> set[str]:
    """Keep the host from calling the plugins that follow; return the names of those it has called already."""
    frame = _host_loop()
    if frame is None:
        return set()  # called by ourselves, not by the host's loop
    plugins = frame.f_locals.get("plugins")
    if not isinstance(plugins, dict) or _OURS not in plugins:
        raise HostError(
            "SGLang's plugin loader is not the one this adapter knows",
            why=f"{frame.f_code.co_filename}:{frame.f_lineno} has no table of loaded plugins with {_OURS!r} in it",
            fix="use a supported SGLang, or report this version",
        )
    names = list(plugins)
    before, after = names[: names.index(_OURS)], names[names.index(_OURS) + 1 :]
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
