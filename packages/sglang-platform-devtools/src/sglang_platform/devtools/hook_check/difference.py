"""The difference between two definitions of one name, in two releases of a host."""

from __future__ import annotations

import ast

from sglang_platform.devtools.source.answers import Definition
from sglang_platform.devtools.source.signatures import (
    FunctionNode,
    decorators,
    signature_of,
    what_differs,
    yields,
)

__all__ = ["difference"]

_KINDS = {
    "property": "a property",
    "cached_property": "a property",
    "classmethod": "a class method",
    "staticmethod": "a static method",
}


def difference(old: Definition, new: Definition) -> str | None:
    """The changes from `old` to `new` that affect a caller or a hook; None if there are none."""
    before, after = old.node, new.node
    if before is None or after is None:
        return None
    was, now = _kind(before), _kind(after)
    if was is not None and now is not None and was != now:
        return f"it was {was}, and is {now}"
    if isinstance(before, FunctionNode) and isinstance(after, FunctionNode):
        return what_differs(signature_of(before.args), signature_of(after.args))
    return None


def _kind(node: ast.AST) -> str | None:
    """The kind of definition in words; None for a value, whose kind shows only at run time."""
    if isinstance(node, ast.ClassDef):
        return "a class"
    if not isinstance(node, FunctionNode):
        return None
    words = next((_KINDS[name] for name in decorators(node) if name in _KINDS), None)
    if words is not None:
        return words
    generator = "generator" if yields(node) else "function"
    return f"an async {generator}" if isinstance(node, ast.AsyncFunctionDef) else f"a {generator}"
