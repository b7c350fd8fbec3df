"""Everything by which a plugin's source changes a host: hooks on either registry, and what it writes past them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sglang_platform.core.discovery.kind import installed_plugins
from sglang_platform.core.doctor.entry_points import reference
from sglang_platform.core.errors import ConfigurationError, PluginOrigin
from sglang_platform.devtools.patches import StandIn, read_patches
from sglang_platform.devtools.registrations import WantedHook, read_hooks
from sglang_platform.devtools.source.opening import open_module, package_of
from sglang_platform.devtools.source.tree import SourceTree

__all__ = ["OURS", "Changes", "changes_of_installed", "is_ours", "read_changes"]

OURS = frozenset(
    f"sglang-platform-{name}" for name in ("core", "devtools", "cuda", "rocm", "example-oot", "conformance")
)
"""This project's distributions. What they couple to the host is run by their own tests, on every release."""


class Changes(NamedTuple):
    """`unread`: places whose target the source does not show, as ``file:line``."""

    hooks: tuple[WantedHook, ...]
    stand_ins: tuple[StandIn, ...]
    unread: tuple[str, ...]


def read_changes(source: SourceTree, plugin: str | None = None) -> Changes:
    """All of one plugin. Nothing of it is imported or run."""
    hooks, patches = read_hooks(source, plugin), read_patches(source, plugin=plugin)
    return Changes((*hooks.hooks, *patches.written), patches.stand_ins, (*hooks.unread, *patches.unread))


def is_ours(origin: PluginOrigin) -> bool:
    """Is it a plugin of this project?"""
    return (origin.distribution or "").replace("_", "-") in OURS


def changes_of_installed(*, with_ours: bool = True) -> Iterator[tuple[PluginOrigin, Changes]]:
    """By package of an installed plugin; one that several share counts for the first, a general plugin before a
    platform. A package that cannot be found is told as an entry point elsewhere."""
    seen: set[str] = set()
    for record in sorted(installed_plugins(), key=lambda record: record.group.endswith(".platforms")):
        package = package_of(reference(record.value)[0])
        if package in seen or (not with_ours and is_ours(record.origin)):
            continue
        seen.add(package)
        try:
            source = open_module(package)
        except ConfigurationError:
            continue
        yield record.origin, read_changes(source, str(record.origin))
