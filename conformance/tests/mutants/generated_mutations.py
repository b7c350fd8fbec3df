"""Small changes to a Python file, one at a time: what a mutation tool does.

    comparison      < to <=, == to !=, is to is not, in to not in, and back
    arithmetic      + to -, * to +, // to *, % to //, unary minus dropped
    logic           and to or, not dropped, a condition negated
    number          n to n + 1, and True to False
    slice           a bound dropped
    statement       an assignment or a call left out
    arguments       the first two arguments of a call swapped
    type            torch.float32 to torch.float16, torch.int64 to torch.int32, and back
    axis            `dim=` another
    in place        `x.add_(y)` to `x.add(y)`, and `out=` left out

Docstrings, annotations, messages of errors and `__all__` are left alone: no behaviour hangs on them.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Container, Iterator
from dataclasses import dataclass

__all__ = ["Mutation", "mutations", "places"]


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
_TYPES = {
    "torch.float32": "torch.float16",
    "torch.float16": "torch.float32",
    "torch.bfloat16": "torch.float16",
    "torch.int64": "torch.int32",
    "torch.int32": "torch.int64",
    "torch.uint8": "torch.int8",
    "tl.float32": "tl.float16",
    "tl.int64": "tl.int32",
    "tl.int32": "tl.int8",
}


def places(text: str) -> list[int]:
    """The line of each change that `mutations` makes, by its number."""
    return [line for line, _, _ in _numbered(ast.parse(text))]


def mutations(file: str, text: str, only: Container[int] | None = None) -> list[Mutation]:
    """Every change of one place of `text`, or those of these numbers, in the order of the places."""
    tree = ast.parse(text)
    statements, found = _statements(tree), []
    for number, (line, at, variant) in enumerate(_numbered(tree)):
        if only is not None and number not in only:
            continue
        changed = copy.deepcopy(tree)
        node = next(one for i, one in enumerate(ast.walk(tree)) if i == at)
        target = next(again for i, again in enumerate(ast.walk(changed)) if i == at)
        kind, replacement = list(_changes(target))[variant]
        _replace(changed, target, replacement)
        ast.fix_missing_locations(changed)
        statement = statements[id(node)]
        old, new = ast.unparse(statement), ast.unparse(_same_place(tree, changed, statement))
        found.append(Mutation(file, line, kind, _first(old, new), _first(new, old), ast.unparse(changed)))
    return sorted(found, key=lambda one: (one.line, one.kind, one.new))


def _numbered(tree: ast.AST) -> Iterator[tuple[int, int, int]]:
    """(line, which node of the walk, which change of it) of every change."""
    untouched, statements = _untouched(tree), _statements(tree)
    for at, node in enumerate(ast.walk(tree)):
        if id(node) not in untouched:
            for variant, _ in enumerate(_changes(node)):
                yield getattr(node, "lineno", None) or statements[id(node)].lineno, at, variant


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
    if isinstance(node, ast.If | ast.IfExp) and ast.unparse(node.test) != "TYPE_CHECKING":
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
    if isinstance(node, ast.Attribute) and ast.unparse(node) in _TYPES:
        yield "type", ast.parse(_TYPES[ast.unparse(node)], mode="eval").body
    if isinstance(node, ast.Call):
        yield from _calls(node)


def _calls(node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    first = node.args[:2]
    plain = len(first) == 2 and not any(isinstance(one, ast.Starred) for one in first)
    if plain and ast.unparse(first[0]) != ast.unparse(first[1]) and not _is_told_by_type(node):
        swapped = copy.deepcopy(node)
        swapped.args[:2] = swapped.args[1::-1]
        yield "arguments", swapped
    for at, keyword in enumerate(node.keywords):
        if keyword.arg in ("dim", "axis"):
            other = copy.deepcopy(node)
            other.keywords[at].value = ast.Constant(1 if ast.unparse(keyword.value) == "0" else 0)
            yield "axis", other
        if keyword.arg == "out":
            left_out = copy.deepcopy(node)
            del left_out.keywords[at]
            yield "in place", left_out
    if isinstance(node.func, ast.Attribute) and re.fullmatch(r"[a-z]\w*[a-z]_", node.func.attr):
        copied = copy.deepcopy(node)
        assert isinstance(copied.func, ast.Attribute)
        copied.func.attr = node.func.attr.removesuffix("_")
        yield "in place", copied


def _is_told_by_type(node: ast.Call) -> bool:
    """Calls of which the two arguments cannot be meant the other way round."""
    return ast.unparse(node.func) in ("isinstance", "issubclass", "getattr", "setattr", "hasattr")


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
