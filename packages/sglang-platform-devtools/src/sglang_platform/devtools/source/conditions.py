"""Whether a statement runs: conditions that the source decides, and handlers of failed imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sglang_platform.devtools.source.values import dotted

__all__ = [
    "TRY",
    "TYPE_ALIAS",
    "Where",
    "blocks",
    "blocks_that_run",
    "decided",
    "guards_imports",
    "handles_import_errors",
    "suppresses",
]

TRY = (ast.Try, getattr(ast, "TryStar", ast.Try))
"""``try``, and since Python 3.11 the one with ``except*``, which has the same parts."""

TYPE_ALIAS = getattr(ast, "TypeAlias", ())
"""``type X = ...``, since Python 3.12."""

_IMPORT_ERRORS = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}


def decided(test: ast.expr) -> bool | None:
    """The value of a condition that is the same in every process, else None. `TYPE_CHECKING` is False."""
    match test:
        case ast.Constant(value=value):
            return bool(value)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = decided(operand)
            return None if inner is None else not inner
        case ast.BoolOp(op=ast.And(), values=values) if any(decided(one) is False for one in values):
            return False
        case ast.BoolOp(op=ast.Or(), values=values) if any(decided(one) is True for one in values):
            return True
        case ast.BoolOp(values=values):
            answers = {decided(one) for one in values}
            return answers.pop() if len(answers) == 1 else None
    name = dotted(test)
    return False if name is not None and name[-1] == "TYPE_CHECKING" else None


def blocks(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The blocks of a statement in source order: of branches, loops, handlers and cases."""
    yield getattr(node, "body", [])
    for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield part.body
    yield getattr(node, "orelse", [])
    yield getattr(node, "finalbody", [])


def blocks_that_run(node: ast.If) -> list[ast.stmt]:
    """The statements of both branches that some process runs."""
    answer = decided(node.test)
    return [*(node.body if answer is not False else ()), *(node.orelse if answer is not True else ())]


def guards_imports(node: ast.Try) -> bool:
    """True if the program survives a failed import in the body of this `try`."""
    return any(handles_import_errors(one) for one in node.handlers)


def handles_import_errors(handler: ast.ExceptHandler) -> bool:
    """True for a handler of failed imports that does not re-raise."""
    kinds: Sequence[ast.expr] = (
        handler.type.elts
        if isinstance(handler.type, ast.Tuple)
        else [one for one in [handler.type] if one is not None]
    )
    names = {(dotted(one) or ("",))[-1] for one in kinds}
    return (not kinds or bool(names & _IMPORT_ERRORS)) and not isinstance(handler.body[-1], ast.Raise)


def suppresses(node: ast.With | ast.AsyncWith) -> tuple[bool, bool]:
    """Whether it is a `with suppress(...)`, whose body may end early, and whether that covers failed imports."""
    for item in node.items:
        call = item.context_expr
        if isinstance(call, ast.Call) and (dotted(call.func) or ("",))[-1] == "suppress":
            names = {(dotted(one) or ("",))[-1] for one in call.args}
            return True, bool(names & _IMPORT_ERRORS)
    return False, False


class Where(NamedTuple):
    """How surely a statement runs, and under which guard for imports."""

    surely: bool = True
    guarded: bool = False
    fallback: bool = False
