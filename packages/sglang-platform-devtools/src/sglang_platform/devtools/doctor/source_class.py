"""The classes of a plugin that derive from classes of SGLang, read from its source and judged against one release."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Collection, Iterator

from sglang_platform.core.doctor.finding import Finding
from sglang_platform.devtools.doctor.host_overrides import examine_host_class
from sglang_platform.devtools.doctor.host_source import HostSource
from sglang_platform.devtools.doctor.part_class import examine_part_class
from sglang_platform.devtools.doctor.read_class import ReadClass, ReadMember, ReadPart, is_mentioned
from sglang_platform.devtools.source.signatures import decorators, signature_of
from sglang_platform.devtools.source.tree import SourceTree
from sglang_platform.devtools.upgrade.members import Function, HostClass, HostMember
from sglang_platform.devtools.upgrade.own import OwnClass
from sglang_platform.devtools.upgrade.plugin import PluginSource
from sglang_platform.devtools.upgrade.reader import Couplings
from sglang_platform.devtools.upgrade.release import Release

__all__ = ["examine_classes"]

_PLATFORM = "SRTPlatform"
_SAME_SIGNATURE = {
    *("classmethod", "staticmethod", "property", "cached_property", "abstractmethod", "abstractproperty"),
    *("override", "final", "cache", "lru_cache", "deprecated", "no_grad", "inference_mode", "enable_grad"),
    *("contextmanager", "asynccontextmanager"),
}
"""Decorators that leave the parameters of a function as they are written."""


def examine_classes(
    couplings: Couplings, plugin: PluginSource, release: Release, examined: Collection[str] = ()
) -> Iterator[Finding]:
    """The findings on each class that no other class of the plugin derives from. Methods under a guard are left out.

    examined: classes that were looked at in a running SGLang, as ``module:qualified name``.
    """
    host = HostSource(release.tree, release.version)
    seen = {f"{one.partition(':')[0]}:{one.rpartition('.')[2].rpartition(':')[2]}" for one in examined}
    guarded = {
        one.place[:2]
        for one in couplings.found
        if one.kind == "override" and one.reach.kind in ("never", "unsure")
    }
    bases = {base for own in couplings.classes for base in own.line() if base is not own}
    for own in couplings.classes:
        if own in bases or f"{own.module.name}:{own.name}" in seen:
            continue
        cls = _read(own, plugin.tree)
        if any(part.name == _PLATFORM and part.wrote == "host" for part in cls.mro):
            found = examine_host_class(cls, host)
        else:
            found = examine_part_class(cls, host, made_by_host=False)
        yield from (one for one in found if plugin.place_of(one.where or "")[:2] not in guarded)
        unread = list(dict.fromkeys(name for one in own.own_line() for name in one.foreign))
        if unread:
            what = f"of the bases of {own.name}, {', '.join(unread)} was not looked at"
            why = "the source does not show what it is"
            yield Finding("class-unread", "note", what, None, why, None, cls.place)


def _read(own: OwnClass, plugin: SourceTree) -> ReadClass:
    order = list(own.line())
    reads_all = not any(one.foreign for one in own.own_line()) and not any(
        one.has_unread_base for one in order
    )
    return ReadClass(
        own.name,
        f"{own.module.path}:{own.node.lineno}",
        [_part(one) for one in order],
        lambda _, name: is_mentioned(name, [plugin.text(one) for one in plugin.containing(name.encode())]),
        reads_all,
    )


def _part(one: HostClass) -> ReadPart:
    members = {name: _member(member) for name, member in one.own.items() if _is_of_class(member)}
    return ReadPart(one.name, one.module.name, "vendor" if isinstance(one, OwnClass) else "host", members)


def _is_of_class(member: HostMember) -> bool:
    """False for what methods set on instances, and for an annotation without a value."""
    return member.inside is None and (member.kind != "field" or member.value is not None)


def _member(member: HostMember) -> ReadMember:
    node, names = member.function, decorators(member.node)
    place = f"{member.module.path}:{getattr(member.node, 'lineno', 1)}"
    if node is None:
        return ReadMember("class" if member.kind == "class" else _kind_of(member.value), place=place)
    kinds = [one for one in ("classmethod", "staticmethod") if one in names]
    kind = "property" if member.kind == "property" else kinds[0] if kinds else "method"
    signature = _signature(node) if _SAME_SIGNATURE.issuperset(names) else None
    return ReadMember(kind, signature, node, place)


def _kind_of(value: ast.expr | None) -> str:
    """ "value" for a literal, and "unknown" for anything that may be a function."""
    try:
        ast.literal_eval(value or ast.Constant(None))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return "unknown"
    return "value"


class _Written:
    """A default as it is written."""

    def __init__(self, node: ast.expr) -> None:
        self._node = node

    def __repr__(self) -> str:
        return ast.unparse(self._node)


def _signature(node: Function) -> inspect.Signature:
    """The parameters that a caller passes, with their defaults as they are written."""
    found = signature_of(node.args, int("staticmethod" not in decorators(node)))
    positional = [*node.args.posonlyargs, *node.args.args]
    defaults = dict(
        zip(reversed([one.arg for one in positional]), reversed(node.args.defaults), strict=False)
    )
    defaults |= {
        one.arg: default
        for one, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        if default is not None
    }
    return found.replace(
        parameters=[
            one.replace(default=_Written(defaults[name])) if name in defaults else one
            for name, one in found.parameters.items()
        ]
    )
