"""Where a class attribute was written, as `file:line`, for messages. Only used once something is wrong."""

from __future__ import annotations

import ast
import functools
import sys
from pathlib import Path
from typing import Any

__all__ = ["place_of"]


def place_of(klass: type, name: str) -> tuple[str, int] | None:
    """File and line at which the body of `klass` defines `name`; None where there is no source to point
    at."""
    code = getattr(_innermost(vars(klass).get(name)), "__code__", None)
    if code is not None:
        return code.co_filename, code.co_firstlineno
    path = getattr(sys.modules.get(klass.__module__), "__file__", None)
    if path is None:
        return None
    try:
        tree: ast.AST | None = ast.parse(Path(path).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    for part in klass.__qualname__.split("."):
        if part != "<locals>" and tree is not None:
            tree = _definition(tree, part)
    if tree is None:
        return None
    inside = _assignment(tree, name)
    return path, getattr(tree if inside is None else inside, "lineno", 1)


def _innermost(value: Any) -> Any:
    """The function under descriptors, partials and wrappers."""
    for _ in range(16):
        if isinstance(value, classmethod | staticmethod):
            value = value.__func__
        elif isinstance(value, property):
            value = value.fget
        elif isinstance(value, functools.cached_property | functools.partialmethod | functools.partial):
            value = value.func
        elif hasattr(value, "__wrapped__"):
            value = value.__wrapped__
        else:
            break
    return value


def _definition(tree: ast.AST, name: str) -> ast.AST | None:
    kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    found = [node for node in ast.walk(tree) if isinstance(node, kinds) and node.name == name]
    return found[-1] if found else None


def _assignment(tree: ast.AST, name: str) -> ast.stmt | None:
    for node in getattr(tree, "body", []):
        if isinstance(node, ast.ClassDef) and node.name == name:
            return node
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return node  # type: ignore[no-any-return]
    return None
