"""Checks of all installed plugins' sources except platform classes: subclasses of SGLang classes, imports and calls.
Core and its tools are left out: their tests run them on each release.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from typing import cast

from sglang_platform.core.contract.parts import MisspeltOverride
from sglang_platform.core.doctor.finding import Finding, FindingId
from sglang_platform.core.errors import ContractError, PluginOrigin
from sglang_platform.devtools.changes import packages_of, platform_plugins
from sglang_platform.devtools.check.couplings import examine_couplings, examine_hooks, unclear_couplings
from sglang_platform.devtools.check.remark import OF_LINES
from sglang_platform.devtools.doctor.class_shape import ShapeBuilder, UnreadableClass, enclosing
from sglang_platform.devtools.doctor.core_overrides import refused_class
from sglang_platform.devtools.doctor.host_source import HostSource, installed_host, is_hosts
from sglang_platform.devtools.doctor.part_class import examine_part_class
from sglang_platform.devtools.source.lookup import Lookup
from sglang_platform.devtools.source.module import Module, parse
from sglang_platform.devtools.source.tree import SourceTree
from sglang_platform.devtools.upgrade.plugin import PluginSource
from sglang_platform.devtools.upgrade.reader import read_couplings
from sglang_platform.devtools.upgrade.release import Release
from sglang_platform.devtools.upgrade.sides import Sides
from sglang_platform.devtools.written import place_of

__all__ = ["examine_plugin_sources"]

_PLATFORM = "SRTPlatform"
_MOST_UNREAD = 5


def examine_plugin_sources(lookup: Lookup, examined: Collection[str] = ()) -> Iterator[Finding]:
    """The findings in every plugin's source; `examined`: names of the classes that were already examined live."""
    builder = ShapeBuilder(lookup)
    host = installed_host(builder)
    records = platform_plugins()
    entries = "".join(f"entry = {one.value}\n" for one in records)
    release = Release(host.tree) if host is not None else None
    for origin, tree in packages_of(records):
        if release is not None:
            yield from _lines(PluginSource(str(origin), tree, None, {"": entries}), origin, release)
        elif any(tree.containing(b"sglang.")):
            what = f"the lines of {origin.name} that depend on SGLang were not looked at"
            yield Finding("host-use-unclear", "note", what, origin, "SGLang is not installed here")
        for name in tree.served():
            module = tree.module(name)
            if module is None:
                yield _unparsed(name, tree, origin)
            if module is not None and host is not None:
                yield from _classes(module, builder, origin, host, examined)


def _lines(plugin: PluginSource, origin: PluginOrigin, host: Release) -> Iterator[Finding]:
    """What `check` says of the lines that depend on SGLang: its notes on hooks alone, and what it did not look at."""
    couplings = read_couplings(plugin, Sides(host, host))
    named = f"SGLang {host.version}"
    lines = [one for one in examine_couplings(couplings, host) if one.level != "note"]
    for one in (*lines, *examine_hooks(couplings, plugin, host)):
        what, why = one.what.replace(host.label, named), one.why and one.why.replace(host.label, named)
        yield Finding(
            OF_LINES.get(one.id, cast("FindingId", one.id)), one.level, what, origin, why, one.fix, one.where
        )
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


def _classes(
    module: Module, builder: ShapeBuilder, origin: PluginOrigin, host: HostSource, examined: Collection[str]
) -> Iterator[Finding]:
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.ClassDef) or not node.bases:
            continue
        path = (*enclosing(module.tree, node), node.name)
        if f"{module.name}:{'.'.join(path)}" in examined:
            continue
        try:
            shape = builder.build_statement(module, node)
        except MisspeltOverride as error:
            if error.what.startswith(f"{module.name}.{node.name} "):  # not a class that it inherits
                yield refused_class(error, origin)
            continue
        except (UnreadableClass, ContractError):
            continue
        if any(one.__name__ == _PLATFORM for one in shape.cls.__mro__):
            continue  # by the rules for platforms
        is_on_host = any(map(is_hosts, shape.cls.__mro__))
        if is_on_host:
            yield from examine_part_class(
                shape.cls, origin, host, made_by_host=False, reads_all=not shape.unknown_bases
            )
        parameters = _parameters_around(module.tree, node)
        unread = [one for one in shape.unknown_bases if is_on_host or one.partition(".")[0] in parameters]
        if unread:
            what = f"of the bases of {shape.cls.__qualname__}, {', '.join(unread)} was not looked at"
            why = "the source does not show what it is"
            where = place_of(shape.cls) or f"{module.path}:{node.lineno}"
            yield Finding("class-unread", "note", what, origin, why, None, where)


def _parameters_around(tree: ast.Module, node: ast.ClassDef) -> set[str]:
    """The parameters of the functions that enclose a class."""
    return {
        one.arg
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef) and any(inner is node for inner in ast.walk(function))
        for one in ast.walk(function.args)
        if isinstance(one, ast.arg)
    }
