"""Functions as the source writes them: their decorators, their parameters, whether they yield."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from typing import Any

from sglang_platform.devtools.source.values import dotted

__all__ = [
    "FunctionNode",
    "bare_parameters",
    "decorators",
    "is_documentation",
    "only_refuses",
    "own_nodes",
    "yields",
]

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def decorators(node: ast.AST) -> list[str]:
    """The last names of the decorators, without their arguments; "?" for one without a name."""
    found = getattr(node, "decorator_list", [])
    called = [one.func if isinstance(one, ast.Call) else one for one in found]
    return [(dotted(one) or ("?",))[-1] for one in called]


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function's body in source order, nested functions and classes left out."""
    body: Any = getattr(node, "body", [])
    waiting: list[ast.AST] = list(reversed(body)) if isinstance(body, list) else [body]
    while waiting:
        one = waiting.pop()
        yield one
        if not isinstance(one, FunctionNode | ast.ClassDef):
            waiting += reversed(list(ast.iter_child_nodes(one)))


def yields(node: FunctionNode) -> bool:
    """True if the function itself yields."""
    return any(isinstance(one, ast.Yield | ast.YieldFrom) for one in own_nodes(node))


def only_refuses(node: ast.AST | None) -> bool:
    """True if a function only raises NotImplementedError, docstring aside."""
    body = [one for one in getattr(node, "body", ()) if not is_documentation(one)]
    if len(body) != 1 or not isinstance(body[0], ast.Raise) or body[0].exc is None:
        return False
    raised = body[0].exc.func if isinstance(body[0].exc, ast.Call) else body[0].exc
    return dotted(raised) == ("NotImplementedError",)


def is_documentation(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def bare_parameters(arguments: ast.arguments, default: Callable[[ast.expr], ast.expr]) -> ast.arguments:
    """The parameters without annotations; `default` maps each default to its replacement expression."""
    bare = copy.deepcopy(arguments)
    for one in (*bare.posonlyargs, *bare.args, *bare.kwonlyargs, bare.vararg, bare.kwarg):
        if one is not None:
            one.annotation = None
    bare.defaults = [default(one) for one in bare.defaults]
    bare.kw_defaults = [None if one is None else default(one) for one in bare.kw_defaults]
    return bare
