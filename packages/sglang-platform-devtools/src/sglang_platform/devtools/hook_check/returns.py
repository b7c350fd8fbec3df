"""The number of values that a function returns, and the number that a hook unpacks its result into."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from sglang_platform.devtools.registrations import WrittenHook
from sglang_platform.devtools.source.signatures import own_nodes, yields
from sglang_platform.devtools.source.values import dotted

__all__ = ["other_shape", "values_given"]


def values_given(node: ast.AST | None) -> int | None:
    """The length of the returned tuple, if every `return` with a value is a tuple of that length; else None."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    counts = {_length(one) for one in _returns(node)}
    return counts.pop() if len(counts) == 1 else None


def other_shape(target: ast.AST | None, hook: WrittenHook, host: str) -> str | None:
    """Why a hook does not fit the number of values that its target returns in this host; None if it may fit."""
    count, node = values_given(target), hook.node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    record = hook.type.record
    first = next((one.arg for one in (*node.args.posonlyargs, *node.args.args)), None)
    if record.returns == "result" and _gives_nothing(node) and _gives_a_value(target):
        return f"it gives nothing, and in {host} {_name(target)} gives a value: return one, or what the original gave"
    forgets = any(map(_is_written, _returns(node))) and _may_end(node.body, unknown=False, first=first)
    if record.returns == "result" and forgets and not yields(node) and _always_gives(target):
        return (
            f"it gives a value on some paths and ends at line {node.end_lineno} without one, and in {host}"
            f" {_name(target)} always gives one: return what the original gave there"
        )
    if count is None:
        return None
    for line, taken in _taken_apart(node, first, record.first) if first else ():
        if taken != count:
            return f"it takes {taken} values at line {line}, and in {host} {_name(target)} gives {count}"
    given = values_given(node) if record.returns != "arguments" else None
    if given is not None and given != count:
        return f"it gives {given} values, and in {host} {_name(target)} gives {count}, which its callers take apart"
    return None


def _returns(node: ast.AST) -> list[ast.expr]:
    """The values of the `return` statements."""
    return [one.value for one in own_nodes(node) if isinstance(one, ast.Return) and one.value is not None]


def _gives_nothing(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """True if the function ends without `return`. An explicit `return None`, `raise` or `yield` is intended."""
    return not (_returns(node) or yields(node) or isinstance(node.body[-1], ast.Raise))


def _gives_a_value(node: ast.AST | None) -> bool:
    """True if it certainly returns a value: a call of a class gives an object, any other call may give None."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return any(_is_a_value(one) for one in _returns(node))


def _always_gives(node: ast.AST | None) -> bool:
    """True if each path that ends certainly returns a value that is not written None."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or _may_end(node.body, unknown=True):
        return False
    values = [one.value for one in own_nodes(node) if isinstance(one, ast.Return)]
    return all(map(_is_written, values)) and _gives_a_value(node)


def _is_written(value: ast.expr | None) -> bool:
    if isinstance(value, ast.IfExp):
        return _is_written(value.body) and _is_written(value.orelse)
    return value is not None and not (isinstance(value, ast.Constant) and value.value is None)


def _may_end(body: Sequence[ast.stmt], *, unknown: bool, first: str | None = None) -> bool:
    """True if these statements may run to their end, past the last one. `unknown` is the answer where that depends on
    what is not read here: a call that may never return, a loop, a handler. A call of `first` returns."""
    last = body[-1] if body else ast.Pass()
    if isinstance(last, ast.Return | ast.Raise | ast.Continue):
        return False
    if isinstance(last, ast.If):
        return any(_may_end(one, unknown=unknown, first=first) for one in (last.body, last.orelse))
    if isinstance(last, ast.With | ast.AsyncWith):
        return _may_end(last.body, unknown=unknown, first=first)
    if isinstance(last, ast.Expr):
        value = last.value.value if isinstance(last.value, ast.Await) else last.value
        returns = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == first
        return unknown or returns or not isinstance(value, ast.Call)
    return unknown or isinstance(last, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Pass | ast.For)


def _is_a_value(given: ast.expr) -> bool:
    if isinstance(given, ast.Call):
        return (dotted(given.func) or ("",))[-1].lstrip("_")[:1].isupper()  # a class, by its capital letter
    return not isinstance(given, ast.Await) and not (isinstance(given, ast.Constant) and given.value is None)


def _taken_apart(node: ast.AST, first: str, meaning: str | None) -> Iterator[tuple[int, int]]:
    """The line and length of each ``a, b = result`` or ``a, b = original(...)``, where `first` is the hook's first
    argument and `meaning` its role in the hook type's record."""
    if meaning not in ("result", "original"):
        return
    for one in own_nodes(node):
        if not isinstance(one, ast.Assign) or not isinstance(one.targets[0], ast.Tuple | ast.List):
            continue
        value: ast.expr = one.value
        if meaning == "original":
            value = value.value if isinstance(value, ast.Await) else value
            if not isinstance(value, ast.Call):
                continue
            value = value.func
        parts = one.targets[0].elts
        if (
            isinstance(value, ast.Name)
            and value.id == first
            and not any(isinstance(p, ast.Starred) for p in parts)
        ):
            yield one.lineno, len(parts)


def _length(value: ast.expr) -> int | None:
    plain = isinstance(value, ast.Tuple) and not any(isinstance(one, ast.Starred) for one in value.elts)
    return len(value.elts) if plain else None  # type: ignore[attr-defined]


def _name(node: ast.AST | None) -> str:
    return str(getattr(node, "name", "it"))
