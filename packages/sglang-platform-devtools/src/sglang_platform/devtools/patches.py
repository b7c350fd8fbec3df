"""What a plugin writes into a host past any registry, read from its source: ``module.name = f``, ``Class.method = f``,
``setattr(...)``, ``sys.modules[...] = ...``. Each place is told, or listed as not read.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from sglang_platform.core.hooks.types import HookType
from sglang_platform.core.installed.address import Address
from sglang_platform.devtools.registrations import WantedHook, WrittenHook, parameters_of
from sglang_platform.devtools.source.answers import Definition
from sglang_platform.devtools.source.conditions import blocks_that_run
from sglang_platform.devtools.source.environment import Environment
from sglang_platform.devtools.source.imports import ImportedNames
from sglang_platform.devtools.source.lookup import Lookup
from sglang_platform.devtools.source.module import Module
from sglang_platform.devtools.source.signatures import FunctionNode
from sglang_platform.devtools.source.tree import SourceTree
from sglang_platform.devtools.source.values import Unreadable, dotted, evaluate, no_attribute, rounds

__all__ = ["Patches", "StandIn", "read_patches"]

_IMPORTERS = {"import_module", "__import__", "resolve_name"}
_SETS = re.compile(rb"\bsetattr\(|\bsys\.modules\b")
_DEEPEST = 5
"""How many functions that write what they are given may stand in one another."""
_UNKNOWN = object()
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_SETTERS = {"setattr", "object"}
"""``setattr(owner, name, value)``, ``mock.patch.object(owner, name, value)``."""


class StandIn(NamedTuple):
    """A module that the plugin puts into `sys.modules` under this name."""

    module: str
    where: str
    if_absent: bool
    """Only where there is none of the name."""


class Patches(NamedTuple):
    """`unread`: places that may write into the host, with what they write into or as what not in the source."""

    written: tuple[WantedHook, ...] = ()
    stand_ins: tuple[StandIn, ...] = ()
    unread: tuple[str, ...] = ()


def read_patches(source: SourceTree, host: str = "sglang", plugin: str | None = None) -> Patches:
    """Every such place in the sources of a plugin, tests left out."""
    written: list[WantedHook] = []
    stand_ins: list[StandIn] = []
    unread: list[str] = []
    lookup = Lookup(source, Lookup(Environment()))
    helpers: dict[Address, _Helper] = {}
    named = re.compile(rb"\b%s\b" % host.encode())  # `sglang_platform` names no part of the host
    modules = [
        module
        for name in source.served()
        if _SETS.search(text := source.text(name)) or named.search(text)
        if (module := source.module(name)) is not None
    ]
    for module in modules:  # first, so that a helper is known wherever it is called
        _Reader(module, lookup, host, plugin, helpers).block(module.tree.body, {})
    for module in modules:
        reader = _Reader(module, lookup, host, plugin, helpers)
        reader.block(module.tree.body, {})
        written += reader.written
        stand_ins += reader.stand_ins
        if host.encode() in source.text(module.name):
            unread += reader.unread
    unread += [place for one in helpers.values() if not one.calls for place in one.unread]
    return Patches(
        tuple(dict.fromkeys(written)), tuple(dict.fromkeys(stand_ins)), tuple(dict.fromkeys(unread))
    )


class _Helper:
    """A function of the plugin that writes what it is given."""

    def __init__(self, node: _Function, unread: list[str], reader: _Reader) -> None:
        self.node, self.unread, self.reader = node, unread, reader
        self.calls = 0


class _Reader:
    """Goes through one module; `names`: loop variables, and variables that stand for a module or class of the host."""

    def __init__(
        self, module: Module, lookup: Lookup, host: str, plugin: str | None, helpers: dict[Address, _Helper]
    ) -> None:
        self.written: list[WantedHook] = []
        self.stand_ins: list[StandIn] = []
        self.unread: list[str] = []
        self._module, self._lookup, self._host, self._plugin = module, lookup, host, plugin
        self._helpers = helpers
        self._depth = 0
        self._imported = ImportedNames(module.tree, module.package)
        self._functions = {
            one.name: one
            for one in ast.walk(module.tree)
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        }

    def block(self, body: Iterable[ast.stmt], names: Mapping[str, Any]) -> None:
        known = dict(names)
        for node in body:
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef() if parameters_of(node):
                    for decorator in node.decorator_list:
                        self._calls(decorator, known)
                    self._function(node, known)
                    continue
                case ast.Assign(targets=targets, value=value):
                    for target in targets:
                        self._assigned(target, value, known)
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    self._assigned(target, value, known)
                case ast.For(iter=table) if self._over_literal(node, known):
                    for variables in rounds(node, lambda one: self._value(one, known)):
                        self.block(node.body, {**known, **variables})
                    self._calls(table, known)
                    continue
                case ast.If():
                    self._calls(node.test, known)
                    self.block(blocks_that_run(node), known)
                    continue
            for part in ast.iter_child_nodes(node):
                if isinstance(part, ast.expr | ast.keyword | ast.withitem):
                    self._calls(part, known)
            for name in ("body", "handlers", "orelse", "finalbody", "cases"):
                for inner in getattr(node, name, ()):
                    is_statement = isinstance(inner, ast.stmt)
                    self.block([inner] if is_statement else inner.body, known)
                    known.update(self._aliases(inner, known) if is_statement else {})

    def _function(self, node: _Function, names: Mapping[str, Any]) -> None:
        """Read a body with unknown parameters. What these leave unread is read at each call of the function."""
        before = len(self.unread)
        self.block(node.body, {**names, **dict.fromkeys(parameters_of(node), _UNKNOWN)})
        unread = self.unread[before:]
        if unread:
            del self.unread[before:]
            address = Address(self._module.name, (node.name,))
            self._helpers.setdefault(address, _Helper(node, unread, self))

    def _helped(self, call: ast.Call, names: Mapping[str, Any]) -> None:
        """A call of a function that writes what it is given."""
        if not self._helpers:
            return
        parts = dotted(call.func) or ("",)
        answer = self._lookup.find(Address(self._module.name, parts))
        address = answer.address if isinstance(answer, Definition) else Address(self._module.name, parts[-1:])
        helper = self._helpers.get(address)
        if helper is None or self._depth > _DEEPEST:
            return
        own = parameters_of(helper.node)
        shift = int(own[:1] in (["self"], ["cls"]))
        given = dict(zip(own[shift:], call.args, strict=False))
        given.update({one.arg: one.value for one in call.keywords if one.arg is not None})
        values = {name: self._passed(node, names) for name, node in given.items()}
        unknown = dict.fromkeys(own, _UNKNOWN)
        reader = _Reader(helper.reader._module, self._lookup, self._host, self._plugin, self._helpers)
        reader._depth = self._depth + 1
        reader.block(helper.node.body, {**unknown, **values})
        helper.calls += 1
        place = f"{self._module.path}:{call.lineno}"
        self.written += [one._replace(where=place) for one in reader.written]
        self.stand_ins += [one._replace(where=place) for one in reader.stand_ins]
        self.unread += [place] * bool(reader.unread)

    def _passed(self, node: ast.expr, names: Mapping[str, Any]) -> Any:
        """What an argument is for the function that gets it: a text, a part of the host, a function, or unknown."""
        full, text = self._full(node, names), self._text(node, names)
        if full is not None:
            return _Part(full)
        return text if text is not None else self._function_of(node)[0] or _UNKNOWN

    def _aliases(self, node: ast.stmt, names: Mapping[str, Any]) -> dict[str, Any]:
        """What a statement inside a block names a part of the host, for those that follow it."""
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            full = self._full(node.value, names)
            return {} if full is None else {node.targets[0].id: _Part(full)}
        return {}

    def _assigned(self, target: ast.expr, value: ast.expr, names: dict[str, Any]) -> None:
        match target:
            case ast.Name(id=name):
                full = self._full(value, names)
                if full is not None:
                    names[name] = _Part(full)
                else:
                    names.pop(name, None)
            case ast.Attribute(value=owner, attr=name):
                full = self._full(owner, names)
                if full is not None:
                    self._write(f"{full}.{name}", value, target.lineno, names)
            case ast.Subscript(value=table, slice=key) if (dotted(table) or ("",))[-2:] == ("sys", "modules"):
                self._stand_in(key, target.lineno, names, if_absent=False)
            case ast.Tuple(elts=parts):
                for part in parts:
                    self._assigned(part, ast.Constant(None), names)

    def _calls(self, root: ast.AST, names: Mapping[str, Any]) -> None:
        for node in ast.walk(root):
            if not isinstance(node, ast.Call):
                continue
            called = dotted(node.func) or ("",)
            if called[-1] in _SETTERS and (called == ("setattr",) or called[-2:] == ("patch", "object")):
                self._set(node, names)
            elif called[-3:] == ("sys", "modules", "setdefault") and node.args:
                self._stand_in(node.args[0], node.lineno, names, if_absent=True)
            elif called[-3:] == ("sys", "modules", "update"):
                self.unread.append(f"{self._module.path}:{node.lineno}")
            else:
                self._helped(node, names)

    def _set(self, call: ast.Call, names: Mapping[str, Any]) -> None:
        if len(call.args) < 2:
            return
        full, key = self._full(call.args[0], names), self._text(call.args[1], names)
        if full is not None and key is not None:
            value = call.args[2] if len(call.args) > 2 else ast.Constant(None)
            self._write(f"{full}.{key}", value, call.lineno, names)
        elif (
            full is not None
            or (key is None and not isinstance(call.args[0], ast.Name | ast.Attribute))
            or self._is_unknown(call.args[0], names)
        ):
            self.unread.append(f"{self._module.path}:{call.lineno}")
        elif key is None and dotted(call.args[0]) not in (("self",), ("cls",)):
            self.unread.append(
                f"{self._module.path}:{call.lineno}"
            )  # a name written as a text, on who knows what

    def _is_unknown(self, node: ast.expr, names: Mapping[str, Any]) -> bool:
        """Is it a parameter, other than the first of a method, of which a caller may make a part of the host?"""
        return (
            isinstance(node, ast.Name) and node.id not in ("self", "cls") and names.get(node.id) is _UNKNOWN
        )

    def _stand_in(self, key: ast.expr, line: int, names: Mapping[str, Any], *, if_absent: bool) -> None:
        name, place = self._text(key, names), f"{self._module.path}:{line}"
        if name is None:
            self.unread.append(place)
        else:
            self.stand_ins.append(StandIn(name, place, if_absent))

    def _write(self, target: str, value: ast.expr, line: int, names: Mapping[str, Any]) -> None:
        node, name = self._function_of(value, names)
        hook = WrittenHook(HookType.REPLACE, name, node)
        place = f"{self._module.path}:{line}"
        self.written.append(WantedHook(target, hook, True, place, self._plugin, on_host=True, written=True))

    def _function_of(
        self, value: ast.expr, names: Mapping[str, Any] | None = None
    ) -> tuple[FunctionNode | ast.ClassDef | None, str]:
        """The function or class that is written, where the source shows it."""
        if isinstance(value, ast.Lambda):
            return value, "a lambda"
        parts = dotted(value)
        if parts is None:
            return None, ast.unparse(value).partition("\n")[0][:60]
        found: Any = (names or {}).get(parts[0]) if len(parts) == 1 else None
        if found is None or found is _UNKNOWN:
            found = self._functions.get(parts[0]) if len(parts) == 1 else None
        if found is None:
            answer = self._lookup.find(Address(self._module.name, parts))
            found = answer.node if isinstance(answer, Definition) else None
        shown = isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        return (found if shown else None), parts[-1]

    def _full(self, node: ast.expr, names: Mapping[str, Any]) -> str | None:
        """The full dotted name of a module or class of the host; None for anything else."""
        match node:
            case ast.Call(func=function, args=[key, *_]) if (dotted(function) or ("",))[-1] in _IMPORTERS:
                text = self._text(key, names)
                return text.replace(":", ".") if text is not None and self._is_hosts(text) else None
            case ast.Subscript(value=table, slice=key) if (dotted(table) or ("",))[-2:] == ("sys", "modules"):
                text = self._text(key, names)
                return text if text is not None and self._is_hosts(text) else None
            case ast.Call(func=ast.Name(id="getattr"), args=[owner, key, *_]):
                above, text = self._full(owner, names), self._text(key, names)
                return f"{above}.{text}" if above and text else None
        parts = dotted(node)
        if parts is None:
            return None
        part = names.get(parts[0])
        if isinstance(part, _Part):
            return ".".join((part.full, *parts[1:]))
        meaning = self._imported.meaning(parts)
        return meaning if meaning is not None and self._is_hosts(meaning) else None

    def _is_hosts(self, name: str) -> bool:
        return name.replace(":", ".").partition(".")[0] == self._host

    def _over_literal(self, node: ast.For, names: Mapping[str, Any]) -> bool:
        try:
            return bool(list(rounds(node, lambda one: self._value(one, names))))
        except Unreadable:
            return False

    def _text(self, node: ast.expr, names: Mapping[str, Any]) -> str | None:
        try:
            value = self._value(node, names)
        except Unreadable:
            return None
        return value if isinstance(value, str) else None

    def _value(self, node: ast.expr, names: Mapping[str, Any]) -> Any:
        def of_name(name: str) -> Any:
            if name in names and not isinstance(names[name], _Part):
                if not isinstance(names[name], str | int | list | dict | tuple):
                    raise Unreadable
                return names[name]
            found = self._lookup.find(Address(self._module.name, (name,)))
            if (
                isinstance(found, Definition)
                and len(found.nodes) == 1
                and isinstance(found.nodes[0], ast.expr)
            ):
                return evaluate(found.nodes[0], _no_name, no_attribute)
            raise Unreadable

        return evaluate(node, of_name, no_attribute)


class _Part(NamedTuple):
    """A variable that stands for a module or class of the host."""

    full: str


def _no_name(name: str) -> Any:
    raise Unreadable
