"""Names that are bound without a binding statement: by `:=`, `globals()`, `setattr`, `exec`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from sglang_platform.devtools.source.values import dotted

__all__ = [
    "Effect",
    "Exports",
    "SetAttribute",
    "SetName",
    "Unknown",
    "Walrus",
    "captured",
    "effects",
    "globals_set_in",
    "is_namespace",
    "makes_names_in",
    "replaces_module",
]

_NAMESPACES = {"globals", "vars", "locals"}
_ONLY_READ = {"get", "keys", "items", "values", "copy"}
_ONLY_LOOKS = {"dict", "dir", "len", "list", "set", "sorted", "tuple", "print"}


class Walrus(NamedTuple):
    """``name := value``."""

    name: str
    value: ast.expr


class SetName(NamedTuple):
    """A name of this body, given as a string."""

    key: ast.expr


class SetAttribute(NamedTuple):
    """``setattr(owner, key, ...)``."""

    owner: str
    key: ast.expr


class Exports(NamedTuple):
    """``__all__.extend(names)``, or ``.append(name)``."""

    names: ast.expr
    is_one: bool


class Unknown(NamedTuple):
    """The source does not show which names."""


Effect = Walrus | SetName | SetAttribute | Exports | Unknown


def effects(root: ast.expr) -> Iterator[Effect]:
    """The bindings that evaluating an expression may make in its enclosing body."""
    waiting: list[tuple[ast.AST, ast.AST | None]] = [(root, None)]
    while waiting:
        node, parent = waiting.pop()
        if isinstance(node, ast.Lambda):
            continue  # runs later, in a body of its own
        if isinstance(node, ast.NamedExpr):
            yield Walrus(node.target.id, node.value)
        elif isinstance(node, ast.Call):
            yield from _of_call(node)
            if is_namespace(node) and not _is_harmless(parent):
                yield Unknown()
        waiting += [(one, node) for one in ast.iter_child_nodes(node)]


def is_namespace(node: ast.AST) -> bool:
    """True for ``globals()``, ``vars()``, ``locals()`` without arguments."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in _NAMESPACES
        and not node.args
    )


def captured(pattern: ast.pattern) -> list[str]:
    """The names that a pattern binds."""
    names = (
        getattr(part, "rest" if isinstance(part, ast.MatchMapping) else "name", None)
        for part in ast.walk(pattern)
    )
    return [one for one in names if isinstance(one, str)]


def replaces_module(target: ast.expr) -> bool:
    """``sys.modules[__name__] = ...`` or ``sys.modules[__name__].anything = ...``."""
    while isinstance(target, ast.Attribute):
        target = target.value
    return (
        isinstance(target, ast.Subscript)
        and (dotted(target.value) or ("",))[-1] == "modules"
        and not isinstance(target.slice, ast.Constant)
    )


def globals_set_in(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """The module-level names that the function binds through a `global` statement."""
    declared = {name for one in ast.walk(function) if isinstance(one, ast.Global) for name in one.names}
    if declared:
        for one in ast.walk(function):
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store) and one.id in declared:
                yield one.id


def makes_names_in(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """True if a call of the function writes into the module's `globals()`."""
    for one in ast.walk(function):
        match one:
            case ast.Subscript(value=table, ctx=ast.Store()) if _is_globals(table):
                return True
            case ast.Call(func=ast.Attribute(value=table, attr=name)) if _is_globals(table):
                if name not in _ONLY_READ:
                    return True
    return False


def _is_globals(node: ast.AST) -> bool:
    return is_namespace(node) and isinstance(node, ast.Call) and dotted(node.func) == ("globals",)


def _of_call(call: ast.Call) -> Iterator[Effect]:
    match call:
        case ast.Call(func=ast.Name(id="exec")):
            if len(call.args) < 2 or is_namespace(call.args[1]):
                yield Unknown()
        case ast.Call(func=ast.Name(id="setattr"), args=[ast.Name(id=owner), key, *_]):
            yield SetAttribute(owner, key)
        case ast.Call(func=ast.Name(id="setattr"), args=[target, key, *_]) if replaces_module(target):
            yield SetName(key)
        case ast.Call(func=ast.Attribute(value=table, attr="update"), args=given) if is_namespace(table):
            yield from (SetName(ast.Constant(word.arg)) if word.arg else Unknown() for word in call.keywords)
            for one in given:
                keys = one.keys if isinstance(one, ast.Dict) else [None]
                yield from (SetName(key) if key is not None else Unknown() for key in keys)
        case ast.Call(func=ast.Attribute(value=table, attr="setdefault" | "__setitem__"), args=[key, *_]):
            if is_namespace(table):
                yield SetName(key)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="__all__"), attr=how), args=[names]):
            yield Exports(names, how == "append") if how in ("append", "extend") else Unknown()


def _is_harmless(parent: ast.AST | None) -> bool:
    """True if the namespace is only read here, or written in a way that is handled elsewhere."""
    match parent:
        case ast.Subscript() | ast.Compare() | ast.comprehension():
            return True
        case ast.Attribute(attr=name):
            return name in _ONLY_READ | {"update", "setdefault", "__setitem__"}
        case ast.Call(func=ast.Name(id=name)):
            return name in _ONLY_LOOKS or name == "exec"
    return False


def expressions(node: ast.stmt) -> Iterator[ast.expr]:
    """The expressions that a statement itself evaluates, nested statements left out."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from (*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults))
        return
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.expr):
            yield part
        elif isinstance(part, ast.withitem):
            yield part.context_expr
        elif isinstance(part, ast.keyword):
            yield part.value
