"""The difference between two definitions of one name, in two releases of a host."""

from __future__ import annotations

import ast

from sglang_platform.devtools.source.answers import Definition
from sglang_platform.devtools.source.signatures import FunctionNode, decorators, yields

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
        return _parameters_differ(before.args, after.args)
    return None


def _parameters_differ(old: ast.arguments, new: ast.arguments) -> str | None:
    before, after = _described(old), _described(new)
    if list(before.items()) == list(after.items()):
        return None
    news = [
        after[name] + (", which it requires" if required else "") for name, required in _added(before, new)
    ]
    gone = [name for name in before if name not in after]
    changed = [
        f"{before[name]} is {after[name]}" for name in before if after.get(name, before[name]) != before[name]
    ]
    parts = [f"it takes {', '.join(news)}"] if news else []
    parts += [f"it no longer takes {', '.join(gone)}"] if gone else []
    parts += changed
    return "; ".join(parts) if parts else f"the order of its parameters is {', '.join(after)}"


def _described(arguments: ast.arguments) -> dict[str, str]:
    """Each parameter in order, for a message: ``x``, ``x=...``, ``*args``, ``keyword x``."""
    positional = [*arguments.posonlyargs, *arguments.args]
    first_default = len(positional) - len(arguments.defaults)
    found = {}
    for i, one in enumerate(positional):
        found[one.arg] = one.arg + ("=..." if i >= first_default else "")
    for one in arguments.posonlyargs:
        found[one.arg] += " (by position only)"
    if arguments.vararg:
        found["*" + arguments.vararg.arg] = "*" + arguments.vararg.arg
    for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found[one.arg] = f"{one.arg}{'' if default is None else '=...'} (by name only)"
    if arguments.kwarg:
        found["**" + arguments.kwarg.arg] = "**" + arguments.kwarg.arg
    return found


def _added(before: dict[str, str], new: ast.arguments) -> list[tuple[str, bool]]:
    return [
        (name, "=..." not in text and not name.startswith("*"))
        for name, text in _described(new).items()
        if name not in before
    ]


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
