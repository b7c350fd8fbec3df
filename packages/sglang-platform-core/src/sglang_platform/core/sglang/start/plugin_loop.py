"""Takes over SGLang's loading of general plugins, so that each plugin runs once and by core's rules.

Each runtime collects its plugins into a table by name, calls them one after another, and logs their exceptions. Core's
general plugin is one of them. When it is imported, and again when it is called, it replaces all other entries of the
table by no-ops, and loads those plugins itself. The table is a local variable of SGLang's function.

This is needed where SGLang runs its own platform, or a vendor class derived directly from SGLang's base. No code of
core runs before the table is filled there, and SGLang would log a failing plugin and continue without it. On a
platform of ours the table holds core's plugin only.
"""

from __future__ import annotations

import importlib.metadata
import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple

from sglang_platform.core.discovery.damaged_install import CORE
from sglang_platform.core.discovery.groups import OWN_PLUGIN
from sglang_platform.core.errors import (
    HookError,
    HostError,
    LaunchRefused,
    PlatformError,
    PluginOrigin,
    explain,
)
from sglang_platform.core.sglang.versions import NEWEST, OLDEST

__all__ = ["Calls", "PluginLoop", "core_origin", "leave_to_core", "refusal", "refusing_the_launch"]

Calls = dict[str, tuple[Callable[[], Any], str | None]]
"""The host's table: by entry-point name, the plugin's function and its distribution."""


class PluginLoop(NamedTuple):
    """SGLang's functions that collect and call the plugins; their local variable `plugins` is the table."""

    module: str
    collects: str
    function: str

    def leave_collected_to_core(self) -> None:
        """Replace the plugins collected so far by no-ops. Called when core's is imported, before any plugin runs."""
        leave_to_core(self.calls_in_progress() or {})

    def take_over(self) -> None:
        """Replace all plugins but core's by no-ops. Called by core's general plugin when this loop calls it.

        Raises HostError if the caller is not this loop, or if the loop has called other plugins already.
        """
        calls = self.calls_in_progress()
        if calls is None:
            raise self._unknown(f"no call of {self.module}.{self.function}() is in progress")
        if not isinstance(calls, dict) or OWN_PLUGIN not in calls:
            raise self._unknown(
                f"{self.module}.{self.function}() has no table `plugins` with {OWN_PLUGIN!r} in it"
            )
        before = itertools.takewhile(lambda name: name != OWN_PLUGIN, calls)
        called = [name for name in before if calls[name][0] is not _left_to_core]
        if called:
            raise self._unknown(
                f"{self.module}.{self.function}() called other plugins before: {', '.join(called)}"
            )
        leave_to_core(calls)

    def calls_in_progress(self) -> Calls | None:
        """SGLang's table, if its loop is on the call stack of this thread; empty until SGLang has filled it.

        None if the loop is not on the stack.
        """
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            ours = frame.f_globals.get("__name__") == self.module
            if ours and frame.f_code.co_name in (self.collects, self.function):
                return frame.f_locals.get("plugins", {})  # type: ignore[no-any-return]
            frame = frame.f_back
        return None

    def _unknown(self, seen: str) -> HostError:
        version = importlib.metadata.version("sglang")
        return HostError(
            f"core's general plugin was not called by the plugin loop that it knows in SGLang {version}",
            plugin=core_origin(),
            why=f"{seen}; without it the other plugins would run twice, or not by the rules",
            fix=f"use SGLang {OLDEST} to {NEWEST}, or report this version; code of your own calls `load_plugins()` "
            "of SGLang, or of sglang_platform.core, not this plugin",
        )


def leave_to_core(calls: Calls) -> None:
    """Replace all entries but core's by no-ops."""
    for name, (_, distribution) in calls.items():
        if name != OWN_PLUGIN:
            calls[name] = (_left_to_core, distribution)


def _left_to_core() -> None:
    """The no-op in SGLang's table in place of a plugin that core loads."""


def core_origin() -> PluginOrigin:
    """The origin of core's general plugin."""
    try:
        version = importlib.metadata.version(CORE)
    except importlib.metadata.PackageNotFoundError:  # run from its source folder
        version = None
    return PluginOrigin(OWN_PLUGIN, CORE, version)


def refusal(error: PlatformError) -> LaunchRefused:
    """The error as a LaunchRefused. If one of core's own hooks failed, the fix names supported versions."""
    if not isinstance(error, HookError) or error.plugin != core_origin():
        return LaunchRefused.because(error)
    what = f"SGLang {importlib.metadata.version('sglang')}: {error.what}"
    fix = f"use SGLang {OLDEST} to {NEWEST}, or a newer {CORE}"
    return LaunchRefused(what, plugin=error.plugin, why=error.why, fix=fix)


@contextmanager
def refusing_the_launch() -> Iterator[None]:
    """Convert errors to LaunchRefused: SGLang would log any `Exception` of a plugin and serve without the plugin."""
    try:
        yield
    except PlatformError as error:
        raise refusal(error) from error
    except Exception as error:
        raise LaunchRefused(
            "core's general plugin failed, and SGLang would serve without any hook",
            plugin=core_origin(),
            why=explain(error),
            fix=f"use SGLang {OLDEST} to {NEWEST}, install {CORE} again, or report this with the traceback",
        ) from error
