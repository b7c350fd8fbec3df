"""The plugin's classes that derive from classes of the host."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from sglang_platform.core.installed.address import Address
from sglang_platform.devtools.source.module import Module
from sglang_platform.devtools.source.tree import SourceTree
from sglang_platform.devtools.source.values import dotted
from sglang_platform.devtools.upgrade.members import HostClass, HostMember, members_of
from sglang_platform.devtools.upgrade.naming import Naming, is_hosts
from sglang_platform.devtools.upgrade.release import Release

__all__ = ["OwnClass", "OwnClasses"]


@dataclass(eq=False)
class OwnClass(HostClass):
    """A class of the plugin, with classes of the plugin and of the host among its bases."""

    foreign: list[str] = field(default_factory=list)
    """Bases of a library, which is not read here, Python's own left out."""

    def own_line(self) -> Iterator[OwnClass]:
        """The plugin's classes in its line."""
        return (one for one in self.line() if isinstance(one, OwnClass))

    def hosts(self) -> list[HostClass]:
        """The classes of the host that the plugin's classes in its line name as bases."""
        return [base for one in self.own_line() for base in one.bases if not isinstance(base, OwnClass)]

    def find_own(self, name: str) -> HostMember | None:
        """The member of this name in the class or its plugin bases; None if they lack it."""
        return next((one.own[name] for one in self.own_line() if name in one.own), None)

    def inherited(self, name: str) -> HostClass | None:
        """The host class that a name is, or would be, inherited from."""
        return next((one for one in self.hosts() if one.find(name) is not None), None)


class OwnClasses:
    """All top-level and nested classes of a plugin, each read once."""

    def __init__(self, plugin: SourceTree, naming: Naming, host: Release) -> None:
        self._plugin, self._naming, self._host = plugin, naming, host
        self._known: dict[int, OwnClass] = {}

    def of(self, module: Module, node: ast.ClassDef) -> OwnClass:
        if id(node) not in self._known:
            address = Address(module.name, (node.name,))
            own = OwnClass(address, module, node, members_of(node, address, module))
            self._known[id(node)] = own
            for base in node.bases:
                self._base(own, base)
        return self._known[id(node)]

    def _base(self, own: OwnClass, base: ast.expr) -> None:
        parts = dotted(base)
        found = self.host_base(own.module, base) or self.named(own.module, parts)
        if found is not None and found is not own:
            own.bases.append(found)
        elif found is None and self._naming.host_name(own.module, parts) is None:
            self._unread(own, parts)

    def host_base(self, module: Module, base: ast.expr) -> HostClass | None:
        """The host class that a base names; None also for one that the release lacks, which is told as an import."""
        full = self._naming.host_name(module, dotted(base))
        return self._host.class_named(full) if full is not None else None

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

    def _unread(self, own: OwnClass, parts: tuple[str, ...] | None) -> None:
        whole = self._naming.full_name(own.module, parts) if parts is not None else None
        top = (whole or parts[0]).partition(".")[0] if parts is not None else ""
        is_known = whole is not None or top in own.module.scope.names
        if hasattr(builtins, top) or (is_known and top in sys.stdlib_module_names):
            return
        if parts is None or not is_known:  # a call, a parameter
            own.has_unread_base = True
        else:
            own.foreign.append(".".join(parts))
