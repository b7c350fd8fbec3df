"""The values of constant expressions: literals, constants, f-strings and sums of those."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["Unreadable", "assigned", "dotted", "evaluate", "no_attribute", "rounds", "shortened", "text_of"]

_LONGEST_LOOP = 1000
_LONGEST = 60


class Unreadable(Exception):
    """Raised for an expression whose value is known only at run time."""


def evaluate(node: Any, of_name: Callable[[str], Any], of_attribute: Callable[[ast.Attribute], Any]) -> Any:
    """The value of `node`; tuples and sets become lists. Raises Unreadable if the value is not constant.

    `of_name` and `of_attribute` give the values of names and attributes, and raise Unreadable themselves.
    """

    def value(one: Any) -> Any:
        return evaluate(one, of_name, of_attribute)

    match node:
        case ast.Constant(value=constant):
            return constant
        case ast.Name(id=name):
            return of_name(name)
        case ast.Attribute():
            return of_attribute(node)
        case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
            return [part for one in elements for part in _element(one, value)]
        case ast.Dict(keys=keys, values=values) if None not in keys:
            return {value(key): value(one) for key, one in zip(keys, values, strict=True)}
        case ast.JoinedStr(values=parts):
            return "".join(str(value(part)) for part in parts)
        case ast.FormattedValue(value=inner, conversion=-1, format_spec=None):
            return value(inner)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _sum(value(left), value(right))
        case ast.Call(
            func=ast.Attribute(value=table, attr="items" | "values" | "keys" as view), args=[], keywords=[]
        ):
            found = value(table)
            if isinstance(found, dict):
                return list(getattr(found, view)())
        case ast.Call(func=ast.Attribute(value=text, attr="join"), args=[parts], keywords=[]):
            glue, pieces = value(text), value(parts)
            if isinstance(glue, str) and isinstance(pieces, list):
                return glue.join(map(str, pieces))
    raise Unreadable


def rounds(loop: ast.For | ast.AsyncFor, value: Callable[[ast.expr], Any]) -> Iterator[dict[str, Any]]:
    """The variables of a loop over a literal in each iteration. Raises Unreadable for any other loop."""
    items = value(loop.iter)
    if not isinstance(items, list | dict | str) or len(items) > _LONGEST_LOOP:
        raise Unreadable
    found = [dict(assigned(loop.target, item)) for item in items]
    yield from found


def assigned(target: ast.expr, value: Any) -> Iterator[tuple[str, Any]]:
    """The names that an assignment of a known value binds. Raises Unreadable if target and value do not match."""
    if isinstance(target, ast.Name):
        yield target.id, value
    elif (
        isinstance(target, ast.Tuple | ast.List)
        and isinstance(value, list | tuple)
        and len(value) == len(target.elts)
        and not any(isinstance(one, ast.Starred) for one in target.elts)
    ):
        for one, part in zip(target.elts, value, strict=True):
            yield from assigned(one, part)
    else:
        raise Unreadable


def dotted(node: ast.expr) -> tuple[str, ...] | None:
    """``("a", "b")`` for ``a.b``, subscripts of generics left out; None for any other expression."""
    if isinstance(node, ast.Subscript):
        return dotted(node.value)
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.Attribute):
        above = dotted(node.value)
        return None if above is None else (*above, node.attr)
    return None


def text_of(node: ast.expr) -> str:
    """The source of an expression in one line of at most 60 characters."""
    return shortened(" ".join(ast.unparse(node).split()), _LONGEST)


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def no_attribute(node: ast.Attribute) -> Any:
    """Raise Unreadable: attributes of objects are not constant."""
    raise Unreadable


def _element(node: ast.expr, value: Callable[[ast.expr], Any]) -> list[Any]:
    if not isinstance(node, ast.Starred):
        return [value(node)]
    inner = value(node.value)
    if not isinstance(inner, list):
        raise Unreadable
    return inner


def _sum(left: Any, right: Any) -> Any:
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    if isinstance(left, list) and isinstance(right, list):
        return left + right
    raise Unreadable
