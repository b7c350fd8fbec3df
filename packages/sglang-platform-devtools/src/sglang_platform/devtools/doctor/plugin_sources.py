"""Checks of all installed plugins' sources: lines that depend on SGLang, hooks, and classes on classes of SGLang.
Core and its tools are left out: their tests run them on each release.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import cast

from sglang_platform.core.doctor.finding import Finding, FindingId
from sglang_platform.core.errors import PluginOrigin
from sglang_platform.devtools.changes import packages_of, platform_plugins
from sglang_platform.devtools.check.couplings import examine_couplings, examine_hooks, unclear_couplings
from sglang_platform.devtools.doctor.host_source import installed_host
from sglang_platform.devtools.doctor.source_class import examine_classes
from sglang_platform.devtools.source.module import parse
from sglang_platform.devtools.source.tree import SourceTree
from sglang_platform.devtools.upgrade.plugin import PluginSource
from sglang_platform.devtools.upgrade.reader import read_couplings
from sglang_platform.devtools.upgrade.release import Release
from sglang_platform.devtools.upgrade.sides import Sides

__all__ = ["examine_plugin_sources"]

_MOST_UNREAD = 5


def examine_plugin_sources(examined: Collection[str] = ()) -> Iterator[Finding]:
    """The findings in every plugin's source; `examined`: names of the classes that were already examined live."""
    host = installed_host()
    records = platform_plugins()
    entries = "".join(f"entry = {one.value}\n" for one in records)
    release = Release(host.tree) if host is not None else None
    for origin, tree in packages_of(records):
        if release is not None:
            yield from _lines(PluginSource(str(origin), tree, None, {"": entries}), origin, release, examined)
        elif any(tree.containing(b"sglang.")):
            what = f"the lines of {origin.name} that depend on SGLang were not looked at"
            yield Finding("host-use-unclear", "note", what, origin, "SGLang is not installed here")
        for name in tree.served():
            if tree.module(name) is None:
                yield _unparsed(name, tree, origin)


def _lines(
    plugin: PluginSource, origin: PluginOrigin, host: Release, examined: Collection[str]
) -> Iterator[Finding]:
    """What `check` says of the lines that depend on SGLang: its notes on hooks alone, and what it did not look at."""
    couplings = read_couplings(plugin, Sides(host, host))
    named = f"SGLang {host.version}"
    lines = [one for one in examine_couplings(couplings, host) if one.level != "note"]
    for one in (*lines, *examine_hooks(couplings, plugin, host)):
        what, why = one.what.replace(host.label, named), one.why and one.why.replace(host.label, named)
        yield Finding(cast("FindingId", one.id), one.level, what, origin, why, one.fix, one.where)
    for found in examine_classes(couplings, plugin, host, examined):
        yield found._replace(plugin=origin)
    for where, why in unclear_couplings(couplings, plugin, host):
        yield Finding("host-use-unclear", "note", why.replace(host.label, named), origin, where=where)
    if couplings.unread:
        places = "; ".join(f"{where}: {why}" for where, why in couplings.unread[:_MOST_UNREAD])
        more = len(couplings.unread) - _MOST_UNREAD
        yield Finding(
            "host-use-unclear",
            "note",
            f"{len(couplings.unread)} of the lines of {origin.name} that depend on SGLang were not looked at",
            origin,
            places + (f"; and {more} more" if more > 0 else ""),
            "`sglang-platform check` lists them all",
        )


def _unparsed(name: str, tree: SourceTree, origin: PluginOrigin) -> Finding:
    """The problem for a module with a syntax error, which would otherwise show on its first use."""
    path, why = tree.path(name), "its text is no Python source"
    try:
        parse(tree.text(name))
    except SyntaxError as error:
        path, why = f"{path}:{error.lineno}", f"SyntaxError: {error.msg}"
    except ValueError as error:
        why = str(error)
    return Finding(
        "plugin-unparsed", "problem", f"{name} cannot be imported", origin, why, "correct the line", path
    )
