"""Small changes to a source file, one at a time: what a mutation tool does, for the files of the reference platform.

    comparison      < to <=, == to !=, is to is not, in to not in, and back
    arithmetic      + to -, * to +, // to *, % to //, unary minus dropped
    logic           and to or, not dropped, a condition negated
    number          n to n + 1, and True to False
    slice           a bound dropped
    statement       an assignment or a call left out

Docstrings, annotations, messages of errors and `__all__` are left alone: no behaviour hangs on them.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Mutation", "mutations"]


@dataclass(frozen=True)
class Mutation:
    """`line` of the file was `old` and becomes `new`; `text` is the whole file."""

    file: str
    line: int
    kind: str
    old: str
    new: str
    text: str

    @property
    def name(self) -> str:
        """What stays the same when lines move."""
        return f"{self.file}: {self.old} -> {self.new}"


_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitOr: ast.BitAnd,
    ast.Pow: ast.Mult,
}


def mutations(file: str, text: str) -> list[Mutation]:
    """Every change of one place of `text`, in the order of the places."""
    tree = ast.parse(text)
    untouched, statements = _untouched(tree), _statements(tree)
    found = []
    for at, node in enumerate(ast.walk(tree)):
        if id(node) in untouched:
            continue
        for variant, (kind, _) in enumerate(_changes(node)):
            changed = copy.deepcopy(tree)
            target = next(again for i, again in enumerate(ast.walk(changed)) if i == at)
            replacement = list(_changes(target))[variant][1]
            _replace(changed, target, replacement)
            ast.fix_missing_locations(changed)
            statement = statements[id(node)]
            old, new = ast.unparse(statement), ast.unparse(_same_place(tree, changed, statement))
            line = getattr(node, "lineno", statement.lineno)
            found.append(Mutation(file, line, kind, _first(old, new), _first(new, old), ast.unparse(changed)))
    return sorted(found, key=lambda one: (one.line, one.kind, one.new))


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """(kind, what the node becomes)."""
    if isinstance(node, ast.Compare):
        for i, operator in enumerate(node.ops):
            changed = copy.deepcopy(node)
            changed.ops[i] = _COMPARISONS[type(operator)]()
            yield "comparison", changed
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        changed_op = copy.deepcopy(node)
        changed_op.op = _ARITHMETIC[type(node.op)]()
        yield "arithmetic", changed_op
    if isinstance(node, ast.UnaryOp):
        kind = "logic" if isinstance(node.op, ast.Not) else "arithmetic"
        yield kind, copy.deepcopy(node.operand)
    if isinstance(node, ast.BoolOp):
        changed_bool = copy.deepcopy(node)
        changed_bool.op = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
        yield "logic", changed_bool
    if isinstance(node, ast.If | ast.IfExp):
        negated = copy.deepcopy(node)
        negated.test = ast.UnaryOp(ast.Not(), negated.test)
        yield "logic", negated
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield "number", ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield "number", ast.Constant(node.value + 1)
    if isinstance(node, ast.Slice):
        for bound in ("lower", "upper"):
            if getattr(node, bound) is not None:
                open_ended = copy.deepcopy(node)
                setattr(open_ended, bound, None)
                yield "slice", open_ended
    if isinstance(node, ast.Assign | ast.AugAssign | ast.Expr):
        yield "statement", ast.Pass()


def _untouched(tree: ast.AST) -> set[int]:
    """Nodes on which no behaviour hangs."""
    found: set[int] = set()

    def leave(node: ast.AST | None) -> None:
        if node is not None:
            found.update(id(n) for n in ast.walk(node))

    for node in ast.walk(tree):
        if _is_text(node) or isinstance(node, ast.Raise | ast.Import | ast.ImportFrom | ast.arg):
            leave(node)
        elif isinstance(node, ast.FunctionDef):
            leave(node.returns)
        elif isinstance(node, ast.AnnAssign):
            leave(node.annotation)
    return found


def _is_text(node: ast.AST) -> bool:
    """A docstring, or `__all__`."""
    if isinstance(node, ast.Assign):
        return isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__"
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _replace(tree: ast.AST, target: ast.AST, replacement: ast.AST) -> None:
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            if value is target:
                setattr(node, name, replacement)
                return
            if isinstance(value, list):
                for i, item in enumerate(value):
                    if item is target:
                        value[i] = replacement
                        return
    raise LookupError(ast.dump(target))


def _statements(tree: ast.AST) -> dict[int, ast.stmt]:
    """The smallest statement around each node, by the node's id."""
    found: dict[int, ast.stmt] = {}
    for node in ast.walk(tree):  # outer nodes first, so that inner statements have the last word
        if isinstance(node, ast.stmt):
            found.update((id(inner), node) for inner in ast.walk(node))
    return found


def _same_place(tree: ast.AST, changed: ast.AST, statement: ast.stmt) -> ast.AST:
    path: list[tuple[str, int | None]] = []

    def find(node: ast.AST, target: ast.AST) -> bool:
        for name, value in ast.iter_fields(node):
            for index, item in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if isinstance(item, ast.AST):
                    path.append((name, index))
                    if item is target or find(item, target):
                        return True
                    path.pop()
        return False

    find(tree, statement)
    node: ast.AST = changed
    for name, index in path:
        value = getattr(node, name)
        node = value if index is None else value[index]
    return node


def _first(text: str, other: str) -> str:
    """The first line in which two texts differ."""
    lines, others = text.splitlines(), other.splitlines()
    for mine, theirs in zip(lines, others, strict=False):
        if mine != theirs:
            return mine.strip()
    return lines[0].strip()
