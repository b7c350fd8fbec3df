"""Loads plugins together in processes of their own, to find the two that cannot be loaded together.

`sglang-platform doctor` and `info` load all that a launch would load. Where a plugin fails, it is loaded alone, and
then with each plugin that was loaded before it: the first pair that fails names both.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.groups import OWN_PLUGIN
from sglang_platform.core.discovery.kind import SRT, PlatformKind
from sglang_platform.core.discovery.lazy import lazy_platform
from sglang_platform.core.discovery.own_process import run
from sglang_platform.core.discovery.settings import ON_ERROR_VARIABLE, PLUGINS_VARIABLE
from sglang_platform.core.discovery.trace import restored
from sglang_platform.core.errors import PlatformError, PluginConflict, PluginFailed, PluginOrigin
from sglang_platform.core.plugins.choices import choose_one

__all__ = ["Trial", "conflict_behind", "load_launch", "load_together"]

_SECONDS = 120
_TRIAL_VARIABLE = "SGLANG_PLATFORM_TRIAL"
"""Set in a process that loads a part of the plugins: a failure there is the answer, and starts no further process."""

_TRIAL = "sglang_platform.core.plugins.trial:main"


class Trial(NamedTuple):
    """What came of a trial."""

    error: PlatformError | None = None
    """The refusal of a launch with these plugins."""
    conflicts: tuple[PluginConflict, ...] = ()
    """Parts that two plugins set, which refuse no launch."""
    ended: str | None = None
    """How the process ended or hung, where it gave no answer."""
    untried: str | None = None
    """Why the platform's `init_backend()` failed, which may be another process that has the device open."""


def conflict_behind(
    error: PlatformError, kind: PlatformKind, earlier: Sequence[PluginOrigin], platform: PluginOrigin | None
) -> PluginConflict | None:
    """The conflict that made a plugin fail, `error.plugin`; None if it fails alone, or no pair fails.

    earlier: the general plugins that were loaded before, in order. platform: the active platform, if it is a plugin.
    """
    failed = error.plugin
    if failed is None or _TRIAL_VARIABLE in os.environ or _fails(kind, failed, None, platform):
        return None
    for other in [*earlier, *filter(None, [platform])]:
        if other != failed and _fails(kind, failed, other, platform):
            return PluginConflict(
                f"{other} and {failed} cannot be loaded in one process",
                plugin=failed,
                why=f"each can be loaded without the other; with {other.name} loaded first, {error.what}: {error.why}",
                fix=choose_one(other, failed),
            )
    return None


def _fails(
    kind: PlatformKind, failed: PluginOrigin, other: PluginOrigin | None, platform: PluginOrigin | None
) -> bool:
    """Whether a plugin fails alone, or after another; a platform is loaded where it is one of the two."""
    parties = [origin for origin in (other, failed) if origin is not None]
    names = [origin.name for origin in parties if origin != platform]
    trial = load_together(
        kind, [OWN_PLUGIN, *names], platform=platform in parties, backend=failed == platform
    )
    if failed == platform and trial.untried is not None:
        return True
    return trial.error is not None and trial.error.plugin == failed


def load_launch(kind: PlatformKind) -> Trial | None:
    """Load all that a launch loads; None where no plugin is the LLM platform, or general beside core's.

    A process that ends or hangs is an error as well, which names the plugin that does so alone.
    """
    general = [record.origin for record in scan.records(kind.general_group) if record.name != OWN_PLUGIN]
    if not general and not (kind is SRT and _has_platform(kind)):
        return None
    outcome = load_together(kind)
    if outcome.ended is None:
        return outcome
    alone = (load_together(kind, [OWN_PLUGIN, origin.name], platform=False) for origin in general)
    culprit = next((origin for origin, one in zip(general, alone, strict=False) if one.ended), None)
    error = PluginFailed(
        f"the process that loads {f'general plugin {culprit.name!r}' if culprit else 'all plugins'} does not end well",
        plugin=culprit,
        why=outcome.ended,
        fix="correct what ends or holds the process"
        + ("" if culprit else f"; {PLUGINS_VARIABLE} loads some of the plugins"),
    )
    return outcome._replace(error=error)


def _has_platform(kind: PlatformKind) -> bool:
    try:
        return lazy_platform(kind)[1].choose().origin is not None
    except PlatformError:  # told where the decision is
        return False


def load_together(
    kind: PlatformKind,
    names: Sequence[str] | None = None,
    *,
    platform: bool = True,
    backend: bool = True,
) -> Trial:
    """Load in a fresh process what a launch loads: the platform, then the general plugins, then its `init_backend()`.

    names: load these general plugins only. platform, backend: False to leave out the platform, or `init_backend()`.
    """
    environment = {key: value for key, value in os.environ.items() if key != ON_ERROR_VARIABLE}
    if names is not None:
        environment |= {PLUGINS_VARIABLE: ",".join(names), _TRIAL_VARIABLE: "1"}
    asked = {"group": kind.general_group, "platform": platform, "backend": backend}
    outcomes: list[dict[str, Any]] = []
    ending = run(_TRIAL, asked, outcomes.append, _SECONDS, environment=environment)
    if ending is not None:
        return Trial(ended=f"it {ending.how}\n{ending.output}".strip())
    (told,) = outcomes
    conflicts: list[Any] = [restored(conflict) for conflict in told["conflicts"]]
    return Trial(restored(told["error"]), tuple(conflicts), untried=told["untried"])
