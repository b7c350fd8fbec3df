"""The plugin's classes that derive from classes of the host."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from sglang_platform.core.installed.address import Address
from sglang_platform.devtools.source.module import Module
from sglang_platform.devtools.source.tree import SourceTree
from sglang_platform.devtools.source.values import dotted
from sglang_platform.devtools.upgrade.members import HostMember, members_of
from sglang_platform.devtools.upgrade.naming import Naming, is_hosts
from sglang_platform.devtools.upgrade.sides import Pair, Sides

__all__ = ["OwnClass", "OwnClasses"]


@dataclass(eq=False)
class OwnClass:
    """A class of the plugin. `hosts`: the classes of the host among its bases, by the base's expression."""

    name: str
    module: Module
    node: ast.ClassDef
    members: dict[str, HostMember]
    bases: list[OwnClass] = field(default_factory=list)
    hosts: list[tuple[ast.expr, Pair]] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    """Bases that name the host but are in neither release, or are from a library that is not read here."""

    def line(self) -> Iterator[OwnClass]:
        yield self
        for base in self.bases:
            yield from base.line()

    def host_pairs(self) -> list[Pair]:
        return [pair for one in self.line() for _, pair in one.hosts]

    def find(self, name: str) -> HostMember | None:
        """The member of this name in the class or its plugin bases; None if they lack it."""
        return next((one.members[name] for one in self.line() if name in one.members), None)

    def inherited(self, name: str) -> Pair | None:
        """The host class that a name is, or would be, inherited from."""
        return next((pair for pair in self.host_pairs() if pair.has(name)), None)


class OwnClasses:
    """All top-level and nested classes of a plugin, each read once."""

    def __init__(self, plugin: SourceTree, naming: Naming, sides: Sides) -> None:
        self._plugin, self._naming, self._sides = plugin, naming, sides
        self._known: dict[int, OwnClass] = {}

    def of(self, module: Module, node: ast.ClassDef) -> OwnClass:
        if id(node) not in self._known:
            address = Address(module.name, (node.name,))
            own = self._known[id(node)] = OwnClass(node.name, module, node, members_of(node, address, module))
            for base in node.bases:
                self._base(own, base)
        return self._known[id(node)]

    def named(self, module: Module, parts: tuple[str, ...] | None) -> OwnClass | None:
        """The plugin class that a dotted name refers to."""
        if parts is None:
            return None
        if len(parts) == 1:
            nodes = [one for one in module.scope.nodes(parts[0]) if isinstance(one, ast.ClassDef)]
            nodes = nodes or [
                one for one in ast.walk(module.tree) if isinstance(one, ast.ClassDef) and one.name == parts[0]
            ]
            if nodes:
                return self.of(module, nodes[-1])
        full = self._naming.full_name(module, parts)
        if full is None or is_hosts(full):
            return None
        home, _, name = full.rpartition(".")
        origin = self._plugin.module(home)
        return self.named(origin, (name,)) if origin is not None and origin is not module else None

    def _base(self, own: OwnClass, base: ast.expr) -> None:
        parts = dotted(base)
        if isinstance(base, ast.Call) or parts is None:
            own.unread.append("a base that is computed")
            return
        full = self._naming.host_name(own.module, parts)
        if full is not None:
            pair = self._sides.pair(full)
            if pair is not None:
                own.hosts.append((base, pair))
            return  # in neither release: reported as an import
        mine = self.named(own.module, parts)
        if mine is not None and mine is not own:
            own.bases.append(mine)
