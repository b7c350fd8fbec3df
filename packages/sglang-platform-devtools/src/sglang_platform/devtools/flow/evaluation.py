"""What every part of the evaluation shares: the host, the names, what escapes, what fails."""

from __future__ import annotations

import abc
import ast
import builtins
from collections.abc import Iterable
from typing import Any

from sglang_platform.devtools.flow.host import HostAnswers
from sglang_platform.devtools.flow.values import (
    UNKNOWN,
    Bound,
    External,
    Fault,
    Function,
    HostObject,
    Namespace,
    Partial,
    Path,
    PluginClass,
    PluginObject,
    Raises,
    UnknownValue,
    unknown_of,
)
from sglang_platform.devtools.source.answers import Absent
from sglang_platform.devtools.source.values import text_of

__all__ = ["Evaluation"]


class Evaluation(abc.ABC):
    """`unreached`: parts that are known not to run. `escaped`: functions and classes that others may call.
    `contained`: functions in tables and lists. `host_uses`: how often the host was asked."""

    def __init__(self, host: HostAnswers) -> None:
        self.host = host
        self.escaped: set[int] = set()
        self.contained: set[int] = set()
        self.unreached: list[ast.AST] = []
        self.host_uses = 0
        self.reset: set[str] = set()
        """Attributes that the plugin sets outside of `__init__`: their values change."""

    @abc.abstractmethod
    def call(self, function: Function, args: list[Any], words: dict[str, Any], path: Path) -> Any:
        """The result of a call of a plugin's function."""

    @abc.abstractmethod
    def member(self, module: str, name: str, path: Path) -> Any:
        """A name of another module of the plugin; unknown if it has none."""

    @abc.abstractmethod
    def fail(self, fault: Fault, error: type[BaseException], path: Path) -> None:
        """Record a failing use. Raises `Raises` if the plugin handles the exception."""

    @abc.abstractmethod
    def visit(self, node: ast.AST, path: Path) -> None:
        """Record that a node runs."""

    @abc.abstractmethod
    def survives(self, error: type[BaseException], path: Path) -> bool | None:
        """Whether the plugin handles an exception on this path."""

    def values(self, nodes: Iterable[ast.expr], path: Path) -> list[Any]:
        return [self.value(one, path) for one in nodes]

    def escape(self, *values: Any) -> None:
        """Record functions and classes that code outside the plugin may call."""
        for one in values:
            match one:
                case Function() | PluginClass():
                    self.escaped.add(id(one.node))
                case Bound(name=Function() as function):
                    self.escaped.add(id(function.node))
                case list() | tuple():
                    self.escape(*one)
                case Partial(function=function, args=args, words=words):
                    self.escape(function, *args, *words.values())
                case dict():
                    self.escape(*one.values())

    @abc.abstractmethod
    def function(self, node: ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef, path: Path) -> Any:
        """The function that a `def` or `lambda` makes."""

    def named(self, name: str, scope: Namespace | None, path: Path) -> Any:
        while scope is not None:
            if name in scope.names:
                if scope.parent is None and scope is not path.scope and name in scope.set_elsewhere:
                    return scope.names[name] if name in path.scope.own_globals else UnknownValue(name)
                return scope.names[name]
            scope = scope.parent
        return (
            External(f"builtins.{name}")
            if (hasattr(builtins, name) and name[:2] != "__") or name == "__import__"
            else UNKNOWN
        )

    def _contain(self, values: list[Any]) -> None:
        self.contained.update(id(one.node) for one in values if isinstance(one, Function))

    def bind(self, target: ast.expr, value: Any, path: Path) -> None:
        """Assign a value to a target."""
        match target:
            case ast.Name(id=name):
                if isinstance(value, Function):
                    value.names.add(name)
                scope = path.scope
                while name in scope.own_globals and scope.parent is not None:
                    scope = scope.parent
                scope.names[name] = value
            case ast.Starred(value=inner):
                self.bind(inner, unknown_of(value), path)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                plain = not any(isinstance(one, ast.Starred) for one in parts)
                same = plain and isinstance(value, list | tuple) and len(value) == len(parts)
                for place, part in enumerate(parts):
                    self.bind(part, value[place] if same else unknown_of(value), path)
            case ast.Attribute(value=inner, attr=name):
                owner = self.value(inner, path)
                if not isinstance(owner, PluginObject | PluginClass):
                    self.escape(value)
                if isinstance(owner, PluginObject):
                    owner.names[name] = value
                elif isinstance(owner, PluginClass):
                    owner.scope.names[name] = value
                self.visit(target, path)
            case ast.Subscript():
                self.value(target.value, path)
                self.escape(value)
                if not isinstance(target.slice, ast.Slice):
                    self.value(target.slice, path)

    def _missing(
        self, node: ast.AST, target: str, error: type[BaseException], absent: Absent, path: Path
    ) -> Any:
        """Record the use of a name that the host lacks, and go on with what has its name."""
        self.fail(Fault(path.scope.module, node, target, absent.why, absent.nearest), error, path)
        return UnknownValue(part=HostObject(target, is_module=False, exists=False))

    def _known(self, ask: Any, node: ast.expr, path: Path) -> Any:
        """The answer of Python to known values."""
        try:
            return ask()
        except (ValueError, TypeError, ArithmeticError, LookupError, AttributeError) as error:
            return self._raised(type(error), node, path)

    def _raised(self, error: type[BaseException], node: ast.expr, path: Path) -> Any:
        builtin = next(one for one in error.__mro__ if one.__module__ == "builtins")
        if self.survives(builtin, path):
            raise Raises(builtin)
        return UnknownValue(text_of(node))

    @abc.abstractmethod
    def value(self, node: ast.expr, path: Path) -> Any:
        """The value of an expression."""

    @abc.abstractmethod
    def result(self, node: ast.expr, called: Any, args: list[Any], words: dict[str, Any], path: Path) -> Any:
        """The result of calling a value."""


def part_in(values: list[Any]) -> HostObject | None:
    return next((one.part for one in values if isinstance(one, UnknownValue) and one.part is not None), None)
