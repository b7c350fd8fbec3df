"""Functions of the plugin, and what calls of them return."""

from __future__ import annotations

import ast
import sys
from typing import Any

from sglang_platform.devtools.flow.ends import End
from sglang_platform.devtools.flow.host import HostAnswers
from sglang_platform.devtools.flow.statements import Statements
from sglang_platform.devtools.flow.values import (
    UNKNOWN,
    UNREAD_WORDS,
    Function,
    HostObject,
    Namespace,
    Path,
    UnknownValue,
    joined,
)
from sglang_platform.devtools.source.module import Module
from sglang_platform.devtools.source.signatures import yields

__all__ = ["MOST_STATEMENTS", "Functions"]

_DEEPEST = 12
MOST_STATEMENTS = 400_000
"""The plugin is followed no further than this."""


class Functions(Statements):
    """Evaluates calls of functions. `made`: all functions; `called`: those that were followed; `count`: of nodes."""

    def __init__(self, host: HostAnswers) -> None:
        super().__init__(host)
        self.pending = []
        self.wrapped, self.unclear = set(), {}
        self.made: list[Function] = []
        self.called: set[int] = set()
        self.count = 0
        self.unread: list[tuple[str, str]] = []
        self._results: dict[Any, Any] = {}
        self._active: list[int] = []

    def function(self, node: Any, path: Path) -> Any:
        name = getattr(node, "name", "lambda")
        made = Function(node, path.scope, name, path.unsure)
        arguments = node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        first = len(positional) - len(arguments.defaults)
        for one, default in zip(positional[first:], arguments.defaults, strict=True):
            made.defaults[one.arg] = self.value(default, path)
        for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            if default is not None:
                made.defaults[one.arg] = self.value(default, path)
        if not isinstance(node, ast.Lambda) and not _are_texts(path.scope.module):
            for one in ast.walk(arguments):
                if isinstance(one, ast.arg) and one.annotation is not None:
                    self.value(one.annotation, path)
            if node.returns is not None:
                self.value(node.returns, path)
        self.made.append(made)
        return made

    def call(self, function: Function, args: list[Any] | None, words: dict[str, Any], path: Path) -> Any:
        node = function.node
        self.called.add(id(node))
        if id(node) in self._active or len(self._active) > _DEEPEST or self.count > MOST_STATEMENTS:
            return UNKNOWN
        names = self._arguments(function, args, words)
        key = (id(node), id(function.scope), path.frames, path.unsure, _key(names))
        if key in self._results:
            return self._results[key]
        scope = Namespace(function.scope.module, names, function.scope)
        unsure = path.unsure or self.unclear.get(id(node), "")
        inside = Path(scope, unsure, path.frames, root=path.root)
        self._active.append(id(node))
        before, self.pending = self.pending, []
        try:
            found = self._body(function, inside)
        except RecursionError:
            self.unread.append((scope.module.path, "its expressions are nested too deeply"))
            found = UNKNOWN
        finally:
            self._active.pop()
            raised, self.pending = self.pending, before
        self.pending += raised
        self._results[key] = found
        return found

    def _body(self, function: Function, path: Path) -> Any:
        node = function.node
        if isinstance(node, ast.Lambda):
            return self.value(node.body, path)
        found = self.block(node.body, path)
        values = [(one.value, one.unsure) for one in found.ends if one.kind == "return"]
        if found.path is not None:
            values.append((None, found.path.unsure))
        raises = [one for one in found.ends if one.kind == "raise" and one.raised is not None]
        if not values and raises:
            raise raises[0].raised  # type: ignore[misc]
        self.pending += [End("raise", {}, one.unsure, raised=one.raised) for one in raises]
        if yields(node) or isinstance(node, ast.AsyncFunctionDef):
            return UNKNOWN
        result, why = values[0] if values else (None, "")
        for value, other in values[1:]:
            result = joined(result, value, why or other)
        return result

    @staticmethod
    def _arguments(function: Function, args: list[Any] | None, words: dict[str, Any]) -> dict[str, Any]:
        """Parameter name -> value; all unknown for a call by the host (None)."""
        arguments = function.node.args
        positional = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
        every = [*positional, *(one.arg for one in arguments.kwonlyargs)]
        names: dict[str, Any] = dict.fromkeys(every, UNKNOWN)
        for one in (arguments.vararg, arguments.kwarg):
            if one is not None:
                names[one.arg] = UNKNOWN
        if args is None:
            return names | words
        names |= function.defaults if UNREAD_WORDS not in words else {}
        names |= dict(zip(positional, args, strict=False))
        if arguments.vararg is not None and len(args) >= len(positional):
            names[arguments.vararg.arg] = tuple(args[len(positional) :])
        names |= {name: value for name, value in words.items() if name in every}
        return names


def _key(names: dict[str, Any]) -> Any:
    return tuple(
        (
            name,
            value
            if isinstance(value, str | int | bool | HostObject | UnknownValue | type(None))
            else id(value),
        )
        for name, value in names.items()
    )


def _are_texts(module: Module) -> bool:
    """True if annotations are not evaluated."""
    return sys.version_info >= (3, 14) or any(
        isinstance(one, ast.ImportFrom)
        and one.module == "__future__"
        and any(a.name == "annotations" for a in one.names)
        for one in module.tree.body[:10]
    )
