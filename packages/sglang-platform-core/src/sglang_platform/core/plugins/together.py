"""Loads all that a launch loads in a process of its own, for `sglang-platform doctor` and `info`."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.groups import OWN_PLUGIN
from sglang_platform.core.discovery.kind import SRT, PlatformKind
from sglang_platform.core.discovery.lazy import lazy_platform
from sglang_platform.core.discovery.own_process import run
from sglang_platform.core.discovery.settings import ON_ERROR_VARIABLE, PLUGINS_VARIABLE
from sglang_platform.core.discovery.trace import restored
from sglang_platform.core.errors import PlatformError, PluginFailed, PluginOrigin

__all__ = ["Trial", "load_launch"]

_SECONDS = 120
_TRIAL = "sglang_platform.core.plugins.trial:main"


class Trial(NamedTuple):
    """What came of a trial."""

    error: PlatformError | None = None
    """The refusal of a launch with these plugins."""
    untried: str | None = None
    """Why the platform's `init_backend()` failed, which may be another process that has the device open."""


def load_launch(kind: PlatformKind) -> Trial | None:
    """Load in a fresh process what a launch loads: the platform, then the general plugins, then its `init_backend()`.

    None where no plugin is the LLM platform, or general beside core's. A process that ends or hangs is an error as
    well, which names the plugin that ran last.
    """
    general = any(record.name != OWN_PLUGIN for record in scan.records(kind.general_group))
    if not general and not (kind is SRT and _has_platform(kind)):
        return None
    environment = {key: value for key, value in os.environ.items() if key != ON_ERROR_VARIABLE}
    told: dict[str, Any] = {}
    ending = run(_TRIAL, {"group": kind.general_group}, told.update, _SECONDS, environment=environment)
    if ending is None:
        return Trial(restored(told["error"]), told["untried"])
    culprit = PluginOrigin(*told["begun"]) if "begun" in told else None
    error = PluginFailed(
        f"the process that loads {f'plugin {culprit.name!r}' if culprit else 'all plugins'} does not end well",
        plugin=culprit,
        why=f"it {ending.how}\n{ending.output}".strip(),
        fix="correct what ends or holds the process"
        + ("" if culprit else f"; {PLUGINS_VARIABLE} loads some of the plugins"),
    )
    return Trial(error)


def _has_platform(kind: PlatformKind) -> bool:
    try:
        return lazy_platform(kind)[1].choose().origin is not None
    except PlatformError:  # told where the decision is
        return False
