"""Classes and decorated functions."""

from __future__ import annotations

import ast
from typing import Any

from sglang_platform.devtools.flow.handlers import Handlers
from sglang_platform.devtools.flow.values import (
    External,
    Function,
    HookDecorator,
    Namespace,
    Path,
    PluginClass,
    UnknownValue,
    is_neutral,
    unknown_of,
)

__all__ = ["Definitions"]

_DECORATE_ONLY = {"builtins", "sglang_platform", "triton", "numba", "pydantic", "pytest", "click", "typer"}
_TRANSPARENT = {"staticmethod", "classmethod", "property", "cached_property", "contextmanager"}


class Definitions(Handlers):
    """Evaluates `class`, and decorators.

    `wrapped`: functions that a decorator of the plugin was given. `unclear`: functions that another decorator may not
    call, with the reason.
    """

    wrapped: set[int]
    unclear: dict[int, str]

    def _decorated(self, node: Any, function: Any, path: Path) -> Any:
        found = function
        for decorator in reversed(node.decorator_list):
            by = self.value(decorator, path)
            source = self.value(decorator.func, path) if isinstance(decorator, ast.Call) else by
            if isinstance(source, External) and not _calls_what_it_gets(source.full):
                self.unclear[id(node)] = f"{source.full} calls it"
            match by:
                case External(full=full):
                    last = full.rpartition(".")[2]
                    if last in _TRANSPARENT and isinstance(found, Function):
                        found.kind = "property" if last == "cached_property" else last
                case HookDecorator():
                    self.result(decorator, by, [found], {}, path)
                case Function() if isinstance(found, Function | PluginClass):
                    self.wrapped.add(id(node))
                    made = self.call(by, [found], {}, path)
                    found = made if not isinstance(made, UnknownValue) else unknown_of(made)
                    if isinstance(made, UnknownValue):
                        self.unclear[id(node)] = f"{ast.unparse(decorator)} calls it"
        return found

    def _class(self, node: ast.ClassDef, path: Path) -> None:
        bases = [self.value(one, path) for one in node.bases]
        for word in node.keywords:
            self.value(word.value, path)
        scope = Namespace(path.scope.module, {}, path.scope)
        cls = PluginClass(node, scope, bases)
        found = self.block(node.body, path._replace(scope=scope))
        for one in scope.names.values():
            if isinstance(one, Function):
                one.owner = one.owner or cls
                one.scope = path.scope if one.scope is scope else one.scope
        if found.path is None and found.ends and found.ends[0].raised is not None:
            raise found.ends[0].raised
        path.scope.names[node.name] = self._decorated(node, cls, path)


def _calls_what_it_gets(full: str) -> bool:
    """True for a decorator that is known to call the function, or to leave it as it is."""
    return is_neutral(full) or full.partition(".")[0] in _DECORATE_ONLY
