"""All changes that a plugin's source makes to a host: hooks on either registry, and monkey-patches."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from sglang_platform.core.discovery import current
from sglang_platform.core.discovery.groups import PLATFORM_GROUP
from sglang_platform.core.discovery.kind import installed_plugins
from sglang_platform.core.discovery.scan import EntryPointRecord
from sglang_platform.core.doctor.entry_points import reference
from sglang_platform.core.errors import ConfigurationError, PluginOrigin
from sglang_platform.devtools.flow.host import Host
from sglang_platform.devtools.flow.program import Program
from sglang_platform.devtools.flow.values import LineReach
from sglang_platform.devtools.registrations import StandIn, WantedHook
from sglang_platform.devtools.source.opening import open_module, package_of
from sglang_platform.devtools.source.tree import SourceTree

__all__ = [
    "OURS",
    "Changes",
    "changes_in",
    "changes_of_installed",
    "is_ours",
    "packages_of",
    "platform_plugins",
    "read_changes",
    "read_hooks",
]

_REGISTERS = re.compile(rb"plugin_hook|HookRegistry|hook_registry")

OURS = frozenset(
    f"sglang-platform-{name}" for name in ("core", "devtools", "cuda", "rocm", "example-oot", "conformance")
)
"""This project's distributions. Their own tests run their hooks on every release."""

_ADAPTER = ("sglang_platform.core.", "sglang_platform.devtools.", "sglang_platform.conformance.")
"""What runs beside every platform, and is no platform's source."""


class Changes(NamedTuple):
    """`unread`: places whose target the source does not show, as ``file:line``. `reach`: whether a hook's line runs."""

    hooks: tuple[WantedHook, ...]
    stand_ins: tuple[StandIn, ...]
    unread: tuple[str, ...]
    reach: Mapping[WantedHook, LineReach]


class PluginHooks(NamedTuple):
    """The registered hooks, without monkey-patches."""

    hooks: tuple[WantedHook, ...]
    unread: tuple[str, ...]


def read_changes(source: SourceTree, plugin: str | None = None, host: Host | None = None) -> Changes:
    """All changes of one plugin, registered hooks first. Nothing of it is imported or run.

    `host`: hooks that the plugin does not register beside this release are left out, and those of which the source
    does not show it are not required.
    """
    found = changes_in(Program(source, host), plugin)
    if host is None:
        return found
    hooks = (one._replace(required=one.required and found.reach[one].kind == "runs") for one in found.hooks)
    return found._replace(hooks=tuple(hooks))


def changes_in(flow: Program, plugin: str | None) -> Changes:
    """The changes of a plugin whose control flow was followed; tests are left out."""
    reach = {one._replace(plugin=plugin): line for one, line in flow.hooks.items()}
    unread = sorted(flow.unread_changes, key=lambda one: one.is_write)
    return Changes(
        tuple(sorted(reach, key=lambda one: (one.written, *_line(one.where or "")))),
        tuple(flow.stand_ins),
        (*_unparsed(flow.tree), *dict.fromkeys(one.place for one in unread)),
        reach,
    )


def read_hooks(source: SourceTree, plugin: str | None = None) -> PluginHooks:
    """The registered hooks, without monkey-patches."""
    flow = Program(source)
    hooks = tuple(one for one in changes_in(flow, plugin).hooks if not one.written)
    unread = (one.place for one in flow.unread_changes if not one.is_write)
    return PluginHooks(hooks, (*_unparsed(source), *unread))


def _line(place: str) -> tuple[str, int]:
    path, _, line = place.rpartition(":")
    return path, int(line)


def _unparsed(source: SourceTree) -> list[str]:
    """The files that may register hooks and cannot be parsed."""
    return [
        f"{source.path(name)} (it cannot be parsed)"
        for name in source.served()
        if _REGISTERS.search(source.text(name)) and source.module(name) is None
    ]


def is_ours(origin: PluginOrigin) -> bool:
    """True for a plugin of this project."""
    return (origin.distribution or "").replace("_", "-") in OURS


def changes_of_installed(host: Host | None) -> Iterator[tuple[PluginOrigin, Changes]]:
    """The changes by package of each installed plugin, general plugins before platforms."""
    for origin, source in packages_of(
        sorted(installed_plugins(), key=lambda one: one.group.endswith(".platforms"))
    ):
        yield origin, read_changes(source, str(origin), None if is_ours(origin) else host)


def platform_plugins() -> list[EntryPointRecord]:
    """The installed plugins but for core's own, and the classes that they named, also of a platform under development,
    which no package registers."""
    trace = current.trace()
    named = [
        EntryPointRecord(PLATFORM_GROUP, one.origin.name, one.answer, one.origin)
        for one in (trace.candidates if trace is not None else ())
        if one.answer
    ]
    return [one for one in (*installed_plugins(), *named) if not one.value.startswith(_ADAPTER)]


def packages_of(records: Iterable[EntryPointRecord]) -> Iterator[tuple[PluginOrigin, SourceTree]]:
    """The packages that entry points name; a shared package counts for the first. A missing package is reported
    elsewhere, as a broken entry point."""
    seen: set[str] = set()
    for record in records:
        package = package_of(reference(record.value)[0])
        if package not in seen:
            seen.add(package)
            with contextlib.suppress(ConfigurationError):
                yield record.origin, open_module(package)
