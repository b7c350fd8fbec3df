"""Imports of the host, of the plugin's own modules, and of others."""

from __future__ import annotations

import abc
import ast
from typing import Any

from sglang_platform.devtools.flow.functions import Functions
from sglang_platform.devtools.flow.values import (
    UNKNOWN,
    External,
    HostObject,
    Namespace,
    Path,
    PluginModule,
)
from sglang_platform.devtools.source.answers import Absent
from sglang_platform.devtools.source.scope import imported_module
from sglang_platform.devtools.source.tree import SourceTree

__all__ = ["Imports"]


class Imports(Functions):
    """Evaluates imports in the plugin `tree`."""

    tree: SourceTree

    @abc.abstractmethod
    def module(self, name: str, path: Path) -> Namespace | None:
        """The names of a module of the plugin, once it has run."""

    def imports(self, node: ast.Import | ast.ImportFrom, path: Path) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                self._import(node, alias, path)
            return
        source = imported_module(node, path.scope.module.package)
        for alias in node.names:
            found = self._from(node, source, alias.name, path)
            if alias.name != "*":
                self.bind(ast.Name(alias.asname or alias.name, ast.Store()), found, path)

    def _import(self, node: ast.Import, alias: ast.alias, path: Path) -> None:
        name, first = alias.name, alias.name.partition(".")[0]
        found: Any = self.import_module(node, name, path)
        if alias.asname is None:
            found = (
                HostObject(first)
                if self.host.is_hosts(name)
                else PluginModule(first)
                if self.tree.has(first)
                else External(first)
            )
        self.bind(ast.Name(alias.asname or first, ast.Store()), found, path)

    def import_module(self, node: ast.AST, name: str, path: Path) -> Any:
        """A module by its full name."""
        if self.host.is_hosts(name):
            self.host_uses += 1
            found = self.host.module(name)
            if isinstance(found, Absent):
                return self._missing(node, name, ModuleNotFoundError, found, path)
            return found
        if self.tree.has(name):
            self.module(name, path)
            return PluginModule(name)
        return External(name)

    def _from(self, node: ast.ImportFrom, source: str, name: str, path: Path) -> Any:
        if self.host.is_hosts(source):
            self.host_uses += 1
            owner = self.host.module(source)
            if isinstance(owner, Absent):
                target = source if name == "*" else f"{source}.{name}"
                return self._missing(node, target, ModuleNotFoundError, owner, path)
            if name == "*":
                return UNKNOWN
            found = self.host.attribute(owner, name)
            if isinstance(found, Absent):
                return self._missing(node, f"{source}.{name}", ImportError, found, path)
            return found
        if not self.tree.has(source):
            return False if name == "TYPE_CHECKING" else External(f"{source}.{name}")
        if name == "*":
            scope = self.module(source, path)
            if scope is not None and scope is not path.scope:
                path.scope.names |= {key: one for key, one in scope.names.items() if key[:2] != "__"}
            return UNKNOWN
        found = self.member(source, name, path)
        if isinstance(found, PluginModule):
            self.module(found.name, path)
        return found
