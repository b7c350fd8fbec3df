"""Resolves the names in a plugin's source to values, functions, and parts of the host."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, NamedTuple

from sglang_platform.core.hooks.types import HookType
from sglang_platform.core.installed.address import Address
from sglang_platform.devtools.source.answers import Definition
from sglang_platform.devtools.source.imports import ImportedNames
from sglang_platform.devtools.source.lookup import Lookup
from sglang_platform.devtools.source.module import Module
from sglang_platform.devtools.source.signatures import FunctionNode
from sglang_platform.devtools.source.values import Unreadable, dotted, evaluate

__all__ = ["COMPUTED", "HOST", "PARAMETER", "HostPart", "Names", "PluginNames", "is_modules"]

HOST = "sglang"
_IMPORTERS = {"import_module", "__import__", "resolve_name"}

PARAMETER = object()
"""Marks a function parameter, whose value depends on the caller."""
COMPUTED = object()
"""Marks a value that is known only at run time."""


class HostPart(NamedTuple):
    """A module of the host or a member of one, by its full name."""

    full: str


Names = Mapping[str, Any]
"""Name -> a value, a `HostPart`, a syntax tree that is not evaluated yet, `PARAMETER` or `COMPUTED`."""


class PluginNames:
    """The names of one module."""

    def __init__(self, module: Module, lookup: Lookup) -> None:
        self._module, self._lookup = module, lookup
        self._imported = ImportedNames(module.tree, module.package)

    def called(self, call: ast.Call, names: Names | None = None) -> str:
        """The original name of the called function, import aliases resolved; for `register`, with its class."""
        parts = dotted(call.func)
        if parts is None:
            return ""
        alias = (names or {}).get(parts[0])
        if isinstance(alias, ast.Attribute):  # register = HookRegistry.register
            parts = (*(dotted(alias) or ()), *parts[1:]) or parts
        elif isinstance(alias, HostPart):  # an alias of the host's registry
            parts = (*alias.full.split("."), *parts[1:])
        whole = (self._imported.meaning(parts) or ".".join(parts)).split(".")
        return ".".join(whole[-2:] if whole[-1] == "register" else whole[-1:])

    def on_host(self, call: ast.Call) -> bool:
        """True for SGLang's registry, even if re-exported by another module of the plugin."""
        first = (dotted(call.func) or ("",))[:1]
        answer = self._lookup.find(Address(self._module.name, first))
        named = (
            answer.address.module if isinstance(answer, Definition) else self._imported.meaning(first) or ""
        )
        if named == self._module.name:  # bound by an import whose module cannot be read here
            named = self._imported.meaning(first) or named
        return is_hosts(named)

    def hook(self, node: ast.AST | None, names: Names) -> tuple[str, FunctionNode | ast.ClassDef | None]:
        """The name of a function or class, and its definition where the source shows it."""
        label = getattr(node, "name", None) or (ast.unparse(node) if isinstance(node, ast.expr) else "?")
        parts = dotted(node) if isinstance(node, ast.expr) else None
        found: Any = node
        if parts is not None and parts[0] in names:
            found = names[parts[0]]
            if isinstance(found, ast.Name | ast.Attribute) and len(parts) == 1:
                found = self.hook(found, {**names, parts[0]: COMPUTED})[1]
            for part in parts[1:]:
                inner = self._module.class_scope(found).nodes(part) if isinstance(found, ast.ClassDef) else []
                found = inner[-1] if inner else None
        elif parts is not None:
            answer = self._lookup.find(Address(self._module.name, parts))
            found = answer.node if isinstance(answer, Definition) else None
        if (
            isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and parts is not None
            and len(parts) == 1
        ):
            label = found.name
        return label, found if isinstance(found, FunctionNode | ast.ClassDef) else None

    def full(self, node: ast.expr, names: Names) -> str | None:
        """The full dotted name of a module or class of the host; None for anything else."""
        match node:
            case ast.Call(func=function, args=[key, *_]) if (dotted(function) or ("",))[-1] in _IMPORTERS:
                text = self.text(key, names)
                return text.replace(":", ".") if text is not None and is_hosts(text) else None
            case ast.Subscript(value=table, slice=key) if is_modules(table):
                text = self.text(key, names)
                return text if text is not None and is_hosts(text) else None
            case ast.Call(func=ast.Name(id="getattr"), args=[owner, key, *_]):
                above, text = self.full(owner, names), self.text(key, names)
                return f"{above}.{text}" if above and text else None
        parts = dotted(node)
        if parts is None:
            return None
        part = names.get(parts[0])
        if isinstance(part, HostPart):
            return ".".join((part.full, *parts[1:]))
        meaning = self._imported.meaning(parts)
        return meaning if meaning is not None and is_hosts(meaning) else None

    def text(self, node: ast.expr, names: Names) -> str | None:
        try:
            value = self.value(node, names)
        except Unreadable:
            return None
        return value if isinstance(value, str) else None

    def value(self, node: ast.expr | None, names: Names) -> Any:
        """The value of an expression. Raises Unreadable where the source does not show it."""
        return evaluate(node, lambda name: self._of_name(name, names), lambda one: _hook_type(one.attr))

    def _of_name(self, name: str, names: Names) -> Any:
        if name not in names:
            found = self._lookup.find(Address(self._module.name, (name,)))
            if isinstance(found, Definition) and len(found.nodes) == 1:
                node = found.nodes[0]
                return self.value(node, {name: COMPUTED}) if isinstance(node, ast.expr) else node
            raise Unreadable
        value = names[name]
        if value is PARAMETER or value is COMPUTED:
            raise Unreadable
        if isinstance(value, HostPart):
            return _hook_type(value.full.rpartition(".")[2])
        if isinstance(value, ast.expr):
            return self.value(value, {**names, name: COMPUTED})
        return value


def is_hosts(name: str) -> bool:
    return name.replace(":", ".").partition(".")[0] == HOST


def is_modules(node: ast.expr) -> bool:
    """``sys.modules``."""
    return (dotted(node) or ("",))[-2:] == ("sys", "modules")


def _hook_type(name: str) -> HookType:
    """``HookType.BEFORE``, by whatever name the class was imported."""
    if name in HookType.__members__:
        return HookType[name]
    raise Unreadable
