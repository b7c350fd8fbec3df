"""The names in a condition that may stand for a server argument, with the values they are compared with."""

from __future__ import annotations

import ast
from collections.abc import Mapping

__all__ = ["NO_TERMS", "Term", "terms"]

Term = tuple[str, tuple[str, ...]]
"""The last name of an attribute, a call or a variable, and the strings that it is compared with."""

NO_TERMS: tuple[Term, ...] = ()
_MOST_ARGUMENTS = 2


def terms(
    node: ast.expr, local: Mapping[str, tuple[Term, ...]], *, taken: bool, of_value: bool = False
) -> tuple[Term, ...]:
    """The settings needed to take the branch (with `taken` False, to skip it); empty if that is the default.

    `local`: the terms that each local variable is computed from. `of_value`: `node` is an assigned value, not a
    condition; a call with more than two arguments then stands for none of them.
    """
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return terms(operand, local, taken=not taken, of_value=of_value)
        case ast.Call(func=ast.Attribute(value=asked, attr="is_none" | "is_null" | "is_disabled")):
            return terms(asked, local, taken=not taken, of_value=of_value)
        case ast.BoolOp(op=op, values=values):
            parts = [terms(one, local, taken=taken, of_value=of_value) for one in values]
            is_either = isinstance(op, ast.Or) is taken
            if is_either and not all(parts) and not of_value:
                return NO_TERMS  # one branch needs no argument, so the condition gates nothing
            return tuple(one for part in parts for one in part)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _compared(left, op, right, local, taken, of_value)
        case ast.NamedExpr(value=value):
            return terms(value, local, taken=taken, of_value=of_value)
        case ast.IfExp(body=body, orelse=orelse) if of_value:
            return (
                *terms(body, local, taken=taken, of_value=True),
                *terms(orelse, local, taken=taken, of_value=True),
            )
    return _names(node, local, of_value) if taken else NO_TERMS


def _compared(
    left: ast.expr,
    op: ast.cmpop,
    right: ast.expr,
    local: Mapping[str, tuple[Term, ...]],
    taken: bool,
    of_value: bool,
) -> tuple[Term, ...]:
    is_same = isinstance(op, ast.Eq | ast.In | ast.Is)
    if isinstance(right, ast.Constant) and right.value in (None, False):
        return _names(left, local, of_value) if is_same is not taken else NO_TERMS
    if isinstance(op, ast.Eq | ast.NotEq | ast.In | ast.NotIn):
        if is_same is not taken:
            return NO_TERMS
        values = _texts(right)
        found = _names(left, local, of_value) or _names(right, local, of_value)
        return tuple((name, values) for name, _ in found) if values else found
    return (*_names(left, local, of_value), *_names(right, local, of_value)) if taken else NO_TERMS


def _texts(node: ast.expr) -> tuple[str, ...]:
    parts = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    values = [one.value for one in parts if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    return tuple(values) if len(values) == len(parts) else ()


def _names(node: ast.expr, local: Mapping[str, tuple[Term, ...]], of_value: bool) -> tuple[Term, ...]:
    match node:
        case ast.Attribute(value=value, attr=attr):
            return (
                ((attr, ()), *_names(value, local, of_value))
                if isinstance(value, ast.Attribute | ast.Call)
                else ((attr, ()),)
            )
        case ast.Name(id=name):
            return local.get(name, ((name, ()),))
        case ast.Call(func=func, args=args, keywords=keywords):
            given = [*args, *(one.value for one in keywords)]
            if of_value and len(given) > _MOST_ARGUMENTS:
                return NO_TERMS
            inner = _names(func, local, of_value)
            return (*inner, *(name for one in given for name in _names(one, local, of_value)))
        case ast.Subscript(value=value):
            return _names(value, local, of_value)
    return NO_TERMS
