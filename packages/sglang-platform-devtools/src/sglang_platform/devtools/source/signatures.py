"""Functions as the source writes them: their decorators, their parameters, whether they yield; what differs of two."""

from __future__ import annotations

import ast
import copy
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from sglang_platform.devtools.source.values import dotted

__all__ = [
    "FunctionNode",
    "bare_parameters",
    "decorators",
    "fields",
    "is_documentation",
    "only_refuses",
    "own_nodes",
    "signature_of",
    "what_differs",
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


def fields(node: ast.ClassDef) -> list[str]:
    """The names that a class body annotates, as a record does."""
    return [
        one.target.id
        for one in node.body
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
    ]


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


def signature_of(arguments: ast.arguments, leave_out: int = 0) -> inspect.Signature:
    """The signature of `arguments` without the first `leave_out` parameters, such as `self`."""
    kinds = inspect.Parameter
    positional = [
        *((one, kinds.POSITIONAL_ONLY) for one in arguments.posonlyargs),
        *((one, kinds.POSITIONAL_OR_KEYWORD) for one in arguments.args),
    ]
    first_default = len(positional) - len(arguments.defaults)
    found = [
        kinds(one.arg, kind, default=None if place >= first_default else kinds.empty)
        for place, (one, kind) in enumerate(positional)
    ][leave_out:]
    if arguments.vararg is not None:
        found.append(kinds(arguments.vararg.arg, kinds.VAR_POSITIONAL))
    for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found.append(kinds(one.arg, kinds.KEYWORD_ONLY, default=kinds.empty if default is None else None))
    if arguments.kwarg is not None:
        found.append(kinds(arguments.kwarg.arg, kinds.VAR_KEYWORD))
    return inspect.Signature(found)


def what_differs(old: inspect.Signature, new: inspect.Signature) -> str | None:
    """The differences that affect a caller or an override, in words; None if both accept the same."""
    before, after = _described(old), _described(new)
    if list(before.items()) == list(after.items()):
        return None
    added = [
        text + ("" if "=..." in text or name.startswith("*") else ", which it requires")
        for name, text in after.items()
        if name not in before
    ]
    gone = [name for name in before if name not in after]
    changed = [f"{text} is {after[name]}" for name, text in before.items() if after.get(name, text) != text]
    parts = [f"it takes {', '.join(added)}"] if added else []
    parts += [f"it no longer takes {', '.join(gone)}"] if gone else []
    parts += changed
    return "; ".join(parts) or f"the order of its parameters is {', '.join(after)}"


_KINDS: dict[Any, str] = {
    inspect.Parameter.POSITIONAL_ONLY: " (by position only)",
    inspect.Parameter.KEYWORD_ONLY: " (by name only)",
}
_STARS: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def _described(signature: inspect.Signature) -> dict[str, str]:
    """Each parameter in order, for a message: ``x``, ``x=...``, ``*args``, ``x (by name only)``."""
    found = {}
    for one in signature.parameters.values():
        name = _STARS.get(one.kind, "") + one.name
        found[name] = name + ("" if one.default is one.empty else "=...") + _KINDS.get(one.kind, "")
    return found
