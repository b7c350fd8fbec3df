"""Handlers around a statement: whether the plugin goes on after an exception."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable
from typing import Any, NamedTuple

from sglang_platform.devtools.flow.values import External, LineReach, PluginClass, UnknownValue
from sglang_platform.devtools.source.values import dotted

__all__ = ["Frame", "ends_process", "errors_of", "first_stand_in", "leaves", "reach_of", "survives"]

Errors = tuple[type[BaseException], ...]


class Frame(NamedTuple):
    """The exceptions that one `try` or `with` handles; None: the source does not show which."""

    errors: Errors | None
    line: int
    what: str = "try"
    stand_ins: int = 0
    """The line of the first class or function that a handler defines in place of an import."""

    def handles(self, error: type[BaseException]) -> bool | None:
        return None if self.errors is None else issubclass(error, self.errors)


def survives(frames: Iterable[Frame], error: type[BaseException]) -> bool | None:
    """Whether one of the frames handles an exception; None if the source does not show it."""
    answers = {one.handles(error) for one in frames}
    return True if True in answers else None if None in answers else False


def reach_of(unsure: str, frames: tuple[Frame, ...], error: type[BaseException]) -> LineReach:
    """Whether a line runs within these frames, and whether the plugin goes on after its error."""
    handled = survives(frames, error)
    if handled:
        line = next(one for one in reversed(frames) if one.handles(error)).stand_ins
        return LineReach("survived", f"the stand-ins from line {line} on are taken" if line else "")
    if handled is None:
        frame = next(one for one in frames if one.handles(error) is None)
        return LineReach("unsure", f"whether {frame.what} in line {frame.line} handles the error")
    return LineReach("unsure", f"it runs if {unsure}") if unsure else LineReach("runs")


def errors_of(value: Any) -> Errors | None:
    """The builtin exceptions that an `except` of this value handles; empty for a plugin's own exception."""
    match value:
        case External(full=full):
            found = getattr(builtins, full.removeprefix("builtins."), None)
            if full == "importlib.metadata.PackageNotFoundError":
                return (_PackageNotFound,)
            return (found,) if isinstance(found, type) and issubclass(found, BaseException) else ()
        case type() if issubclass(value, BaseException):
            return (value,)
        case list() | tuple():
            parts = [errors_of(one) for one in value]
            return None if None in parts else tuple(one for part in parts for one in part or ())
        case PluginClass():
            return ()
        case UnknownValue():
            return None
    return ()


class _PackageNotFound(ModuleNotFoundError):
    """`importlib.metadata.PackageNotFoundError`, which no missing module raises."""


def first_stand_in(body: Iterable[ast.stmt]) -> int:
    """The line of the first class or function in a handler that imports nothing."""
    statements = list(body)
    if any(isinstance(one, ast.Import | ast.ImportFrom) for one in statements):
        return 0
    return next((one.lineno for one in statements if isinstance(one, ast.ClassDef | ast.FunctionDef)), 0)


def leaves(body: Iterable[ast.stmt]) -> bool:
    """True if a `finally` returns, which ends any exception."""
    return any(isinstance(one, ast.Return | ast.Break | ast.Continue) for one in body)


def ends_process(node: ast.expr) -> bool:
    """``sys.exit()``, ``os._exit()``, ``exit()``."""
    called = dotted(node.func) if isinstance(node, ast.Call) else None
    return called in (("sys", "exit"), ("os", "_exit"), ("os", "abort"), ("exit",), ("quit",))
