"""Functions as the source writes them: their decorators, their parameters, whether they yield."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable

from sglang_platform.devtools.source.values import dotted

__all__ = ["FunctionNode", "bare_parameters", "decorators", "yields"]

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def decorators(node: ast.AST) -> list[str]:
    """The last names of the decorators, without their arguments; "?" for one without a name."""
    found = getattr(node, "decorator_list", [])
    called = [one.func if isinstance(one, ast.Call) else one for one in found]
    return [(dotted(one) or ("?",))[-1] for one in called]


def yields(node: FunctionNode) -> bool:
    """Does the function itself yield, functions and classes inside it aside?"""
    waiting: list[ast.AST] = list(node.body) if isinstance(node.body, list) else [node.body]
    while waiting:
        one = waiting.pop()
        if isinstance(one, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(one, FunctionNode | ast.ClassDef):
            waiting.extend(ast.iter_child_nodes(one))
    return False


def bare_parameters(arguments: ast.arguments, default: Callable[[ast.expr], ast.expr]) -> ast.arguments:
    """The same parameters without annotations; `default` gives the expression that stands for each default."""
    bare = copy.deepcopy(arguments)
    for one in (*bare.posonlyargs, *bare.args, *bare.kwonlyargs, bare.vararg, bare.kwarg):
        if one is not None:
            one.annotation = None
    bare.defaults = [default(one) for one in bare.defaults]
    bare.kw_defaults = [None if one is None else default(one) for one in bare.kw_defaults]
    return bare
