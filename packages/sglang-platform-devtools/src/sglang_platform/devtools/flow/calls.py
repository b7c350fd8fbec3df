"""Calls of values, and attributes of the plugin's own objects."""

from __future__ import annotations

import ast
from collections.abc import ItemsView, KeysView, ValuesView
from dataclasses import replace
from typing import Any

from sglang_platform.devtools.flow.library import (
    Missing,
    NamesOf,
    attribute_of,
    call_library,
    is_plain,
)
from sglang_platform.devtools.flow.operators import SIMPLE_FORMAT, Operators
from sglang_platform.devtools.flow.values import (
    UNKNOWN,
    UNREAD_WORDS,
    Bound,
    External,
    Function,
    HostObject,
    Partial,
    Path,
    PluginClass,
    PluginModule,
    PluginObject,
    UnknownValue,
    unknown_of,
)
from sglang_platform.devtools.source.answers import Absent
from sglang_platform.devtools.source.signatures import fields
from sglang_platform.devtools.source.values import text_of

__all__ = ["Calls"]


class Calls(Operators):
    """Evaluates calls."""

    def part_of(self, owner: Any, name: str, path: Path) -> Any:
        match owner:
            case External(full=full):
                return False if name == "TYPE_CHECKING" else External(f"{full}.{name}")
            case PluginModule() if name in self.reset:
                return UnknownValue(f".{name}")
            case PluginModule(name=module):
                return self.member(module, name, path)
            case PluginClass() | PluginObject():
                return self._of_class(owner, name, path)
            case NamesOf() | Function():
                return Bound(owner, name)
            case UnknownValue(part=HostObject() as part):
                answer = self.host.attribute(part, name) if part.exists else None
                found = answer if isinstance(answer, HostObject) else getattr(answer, "part", None)
                lost = HostObject(f"{part.full}.{name}", is_module=False, exists=False)
                return UnknownValue(owner.why, found or lost)
            case UnknownValue():
                return UnknownValue(owner.why)
            case HostObject() | Bound():
                return UNKNOWN
            case str() if name == "format" and SIMPLE_FORMAT.fullmatch(owner):
                return owner.format
        found = attribute_of(owner, name)
        return UnknownValue(f".{name}") if found is None else found

    def _of_class(self, owner: PluginClass | PluginObject, name: str, path: Path) -> Any:
        if name in self.reset:
            return UnknownValue(f".{name}")
        if isinstance(owner, PluginObject) and name in owner.names:
            return owner.names[name]
        cls = owner.cls if isinstance(owner, PluginObject) else owner
        self.escape(cls)
        found = self._in_line(cls, name)
        if not isinstance(found, Function):
            return found
        if found.kind == "property":
            return self.call(found, [owner], {}, path) if isinstance(owner, PluginObject) else UNKNOWN
        if found.kind == "staticmethod":
            return found
        if found.kind == "classmethod":
            return Bound(cls, found)
        return Bound(owner, found) if isinstance(owner, PluginObject) else found

    def _in_line(self, cls: PluginClass, name: str) -> Any:
        if name in cls.scope.names:
            return cls.scope.names[name]
        found = (self._in_line(one, name) for one in cls.bases if isinstance(one, PluginClass))
        return next((one for one in found if one is not UNKNOWN), UNKNOWN)

    def _call(self, node: ast.Call, path: Path) -> Any:
        self.visit(node, path)
        called = self.value(node.func, path)
        args = [self.value(one, path) for one in node.args]
        words = {one.arg: self.value(one.value, path) for one in node.keywords if one.arg is not None}
        for one in node.keywords:
            if one.arg is None:
                found = self.value(one.value, path)
                plain = isinstance(found, dict) and all(isinstance(key, str) for key in found)
                words |= found if plain else {UNREAD_WORDS: UNKNOWN}
        if any(isinstance(one, ast.Starred) for one in node.args):
            args = self._spread(node.args, path)
        return self.result(node, called, args, words, path)

    def _spread(self, nodes: list[ast.expr], path: Path) -> list[Any]:
        found: list[Any] = []
        for one in nodes:
            inner = self.value(one.value if isinstance(one, ast.Starred) else one, path)
            found += inner if isinstance(one, ast.Starred) and isinstance(inner, list | tuple) else [inner]
        return found

    def result(self, node: ast.expr, called: Any, args: list[Any], words: dict[str, Any], path: Path) -> Any:
        """The result of calling a value."""
        if not isinstance(called, Function | PluginClass | Bound | PluginObject | Partial):
            self.escape(*args, *words.values())
        match called:
            case Function():
                return self.call(called, args, words, path)
            case Bound(owner=owner, name=Function() as function):
                return self.call(function, [owner, *args], words, path)
            case Bound(owner=NamesOf(part=part), name="get") if args and isinstance(args[0], str):
                answer = self.host.attribute(part, args[0])
                return (args[1] if len(args) > 1 else None) if isinstance(answer, Absent) else answer
            case PluginClass():
                return self.instance(called, args, words, path)
            case PluginObject():
                return self.result(node, self._of_class(called, "__call__", path), args, words, path)
            case Partial(function=function, args=first, words=others):
                return self.result(node, function, [*first, *args], {**others, **words}, path)
            case External(full="functools.partial") if args:
                return Partial(args[0], args[1:], words)
            case External(full=full):
                return self._library(node, full, args, words, path)
            case HostObject():
                self.host_uses += 1
                return unknown_of(otherwise=text_of(node))
            case UnknownValue(part=HostObject(exists=True)):
                return unknown_of(called, otherwise=text_of(node))
            case UnknownValue():
                return unknown_of(called, *args, *words.values())
        if callable(called) and all(map(is_plain, (*args, *words.values()))):
            found = self._known(lambda: called(*args, **words), node, path)
            return list(found) if isinstance(found, KeysView | ValuesView | ItemsView) else found
        return unknown_of(*args, *words.values())

    def _library(self, node: ast.expr, full: str, args: list[Any], words: dict[str, Any], path: Path) -> Any:
        if full == "builtins.map" and len(args) == 2 and isinstance(args[1], list | tuple):
            return [self.result(node, args[0], [one], {}, path) for one in args[1]]
        if full == "builtins.next" and args and isinstance(args[0], list | tuple) and args[0]:
            return args[0][0]
        if any(isinstance(one, HostObject) for one in args) or self._names_host(args):
            self.host_uses += 1
        if (
            full == "builtins.hasattr"
            and len(args) == 2
            and isinstance(args[0], PluginModule | PluginClass | PluginObject)
        ):
            found = self.part_of(args[0], str(args[1]), path)
            return UnknownValue(text_of(node)) if isinstance(found, UnknownValue) else True
        if (
            full == "builtins.getattr"
            and len(args) > 1
            and isinstance(args[1], str)
            and isinstance(args[0], PluginModule | PluginClass | PluginObject)
        ):
            return self.part_of(args[0], args[1], path)
        try:
            return self._retold(call_library(self.host, full, args, words, path.scope.module.package), node)
        except Missing as missing:
            return self._missing(node, missing.target, missing.error, missing.absent, path)
        except (ValueError, TypeError, ArithmeticError, LookupError, AttributeError) as error:
            return self._raised(type(error), node, path)

    def _names_host(self, args: list[Any]) -> bool:
        return any(isinstance(one, str) and self.host.is_hosts(one) for one in args)

    @staticmethod
    def _retold(found: Any, node: ast.expr) -> Any:
        """An unknown answer, named by its own expression."""
        return replace(found, why=text_of(node)) if isinstance(found, UnknownValue) and found.why else found

    def instance(self, cls: PluginClass, args: list[Any], words: dict[str, Any], path: Path) -> Any:
        made = PluginObject(cls)
        initial = self._in_line(cls, "__init__")
        if isinstance(initial, Function):
            self.call(initial, [made, *args], words, path)
        else:
            names = fields(cls.node)
            unread = dict.fromkeys(names, UNKNOWN) if UNREAD_WORDS in words else {}
            made.names = {**unread, **dict(zip(names, args, strict=False)), **words}
        return made
