"""Compares definitions of two releases: parameters, kinds, numbers of values, constants."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator

from sglang_platform.devtools.hook_check.returns import values_given
from sglang_platform.devtools.host_calls import Call
from sglang_platform.devtools.source.signatures import decorators, own_nodes, signature_of
from sglang_platform.devtools.source.values import dotted
from sglang_platform.devtools.upgrade.members import Function, HostMember

__all__ = [
    "bound_parameters",
    "kind_of_function",
    "kind_of_member",
    "not_taken",
    "parameters_of",
    "shown",
    "values_of",
    "where_arguments_go",
]

_Kinds = inspect.Parameter


def parameters_of(node: Function, *, is_method: bool) -> inspect.Signature:
    """The parameters that a caller passes: without `self` or `cls` for a method."""
    return signature_of(node.args, int(is_method and "staticmethod" not in decorators(node)))


def bound_parameters(member: HostMember) -> inspect.Signature | None:
    return parameters_of(member.function, is_method=True) if member.function is not None else None


def shown(name: str, signature: inspect.Signature | None, node: ast.AST | None = None) -> str:
    """A signature for messages: ``alloc(need_size, backup=...)``, with an `async` prefix if it is."""
    if signature is None:
        return name
    parts: list[str] = []
    star = False
    for one in signature.parameters.values():
        if one.kind is _Kinds.VAR_POSITIONAL:
            parts.append(f"*{one.name}")
            star = True
            continue
        if one.kind is _Kinds.VAR_KEYWORD:
            parts.append(f"**{one.name}")
            continue
        if one.kind is _Kinds.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        parts.append(one.name + ("" if one.default is _Kinds.empty else "=..."))
    before = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    return f"{before}{name}({', '.join(parts)})"


def where_arguments_go(call: Call, signature: inspect.Signature) -> list[str]:
    """The names of the parameters that receive the call's positional arguments."""
    names = [
        one.name
        for one in signature.parameters.values()
        if one.kind in (_Kinds.POSITIONAL_ONLY, _Kinds.POSITIONAL_OR_KEYWORD)
    ]
    return names[: call.positional]


def not_taken(theirs: inspect.Signature, mine: inspect.Signature) -> str | None:
    """The arguments that the host's method accepts and the plugin's does not."""
    names, kinds = mine.parameters, inspect.Parameter
    open_names = any(one.kind is kinds.VAR_KEYWORD for one in names.values())
    open_places = any(one.kind is kinds.VAR_POSITIONAL for one in names.values())
    lacks = [
        one.name
        for one in theirs.parameters.values()
        if one.kind not in (kinds.VAR_KEYWORD, kinds.VAR_POSITIONAL) and one.name not in names
    ]
    places = [
        one for one in names.values() if one.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
    ]
    wanted = [one for one in theirs.parameters.values() if one.kind is kinds.POSITIONAL_OR_KEYWORD]
    if open_names and (open_places or len(places) >= len(wanted) or all(one.name in names for one in wanted)):
        lacks = []
    needs = [
        one.name
        for one in names.values()
        if one.default is kinds.empty
        and one.kind not in (kinds.VAR_KEYWORD, kinds.VAR_POSITIONAL)
        and one.name not in theirs.parameters
    ]
    parts = [f"lacks {', '.join(lacks)}"] if lacks else []
    parts += [f"asks for {', '.join(needs)}"] if needs else []
    return " and ".join(parts) or None


def kind_of_function(node: ast.AST | None) -> str | None:
    """The kind of a function in words; None for a value."""
    match node:
        case ast.ClassDef():
            return "a class"
        case ast.AsyncFunctionDef():
            return "an async function"
        case ast.FunctionDef():
            return "a function"
    return None


def kind_of_member(member: HostMember) -> str:
    kinds = set(decorators(member.node))
    if member.kind == "property":
        return "a property"
    if member.kind != "method":
        return "an attribute"
    if "classmethod" in kinds:
        return "a class method"
    if "staticmethod" in kinds:
        return "a static method"
    return "an async method" if isinstance(member.node, ast.AsyncFunctionDef) else "a method"


def values_of(node: ast.AST | None) -> int | None:
    """The number of values a function returns, by its `return`s or its annotation; None if unknown.

    An empty `return` or `return None` beside tuples is ignored, as callers that unpack the result do.
    """
    written = values_given(node)
    if written is not None or not isinstance(node, Function):
        return written
    lengths = set(_lengths(node))
    if len(lengths) == 1:
        return lengths.pop()
    return _annotated(node.returns) if not lengths else None


def _lengths(node: Function) -> Iterator[int | None]:
    for one in own_nodes(node):
        if not isinstance(one, ast.Return) or one.value is None:
            continue
        if isinstance(one.value, ast.Tuple) and not any(isinstance(x, ast.Starred) for x in one.value.elts):
            yield len(one.value.elts)
        elif not (isinstance(one.value, ast.Constant) and one.value.value is None):
            yield _annotated(node.returns)


def _annotated(node: ast.expr | None) -> int | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            return _annotated(ast.parse(node.value, mode="eval").body)
        except SyntaxError:
            return None
    if isinstance(node, ast.BinOp):
        return _annotated(node.left) or _annotated(node.right)
    if isinstance(node, ast.Subscript):
        word = (dotted(node.value) or ("",))[-1]
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if word == "Optional":
            return _annotated(parts[0])
        if word in ("Tuple", "tuple"):
            open_ended = any(isinstance(one, ast.Constant) and one.value is Ellipsis for one in parts)
            return None if open_ended else len(parts)
    return None
