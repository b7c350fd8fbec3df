"""A plugin's dependencies by string: environment variables, flags, groups, full names, names of parts."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from sglang_platform.devtools.source.module import Module
from sglang_platform.devtools.source.values import Unreadable, dotted, evaluate, no_attribute
from sglang_platform.devtools.upgrade.coupling import Coupling, SourcePlace
from sglang_platform.devtools.upgrade.naming import Naming

__all__ = ["group_couplings", "text_couplings"]

_VARIABLE = re.compile(r"(?:SGLANG|SGL)_[A-Z0-9_]+")
_FLAG = re.compile(r"--([a-z][a-z0-9]*(?:-[a-z0-9]+)+)(?:=.*)?")
_FULL_NAME = re.compile(r"sglang(?:\.\w+)+(?::[\w.]+)?")
_PART = re.compile(r"[a-z][\w-]*")
_GROUP_IN_PROJECT = re.compile(r"""^\[project\.entry-points\.["']?([\w.]+)["']?\]""", re.M)
_GROUP_IN_METADATA = re.compile(r"^\[([\w.]+)\]", re.M)
_ARGUMENTS = {"server_args", "args", "server_arguments"}


def group_couplings(texts: dict[str, str]) -> Iterator[Coupling]:
    """The host's entry-point groups in `pyproject.toml` or `entry_points.txt`."""
    for file, text in texts.items():
        pattern = _GROUP_IN_PROJECT if file.endswith(".toml") else _GROUP_IN_METADATA
        for match in pattern.finditer(text):
            if match[1].startswith("sglang."):
                line = text.count("\n", 0, match.start()) + 1
                yield Coupling("group", match[1], SourcePlace(file, line, match[0]))


def text_couplings(
    module: Module, naming: Naming, place: Callable[[Module, ast.AST], SourcePlace], hooks: Sequence[Coupling]
) -> Iterator[Coupling]:
    """The string couplings of one module, but for the lines and targets of its `hooks`, which are told as hooks."""
    known_lines = {one.place.line for one in hooks}
    targets = {one.target.replace(":", ".") for one in hooks}
    documentation = {id(one) for one in _documentation(module.tree)}
    inside = {
        id(part) for one in ast.walk(module.tree) if isinstance(one, ast.JoinedStr) for part in one.values
    }
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in documentation | inside:
            text = _text(node, module)
            if text is None:
                continue
            if _VARIABLE.fullmatch(text):
                yield Coupling("environment", text, place(module, node))
            elif match := _FLAG.fullmatch(text):
                yield Coupling("argument", f"--{match[1]}", place(module, node))
            elif _FULL_NAME.fullmatch(text) and node.lineno not in known_lines:
                name = text.replace(":", ".")
                if name not in targets:
                    subject = "" if ":" in text else "a string"
                    yield Coupling("import", name, place(module, node), subject=subject)
        yield from _names(node, module, naming, place)


def _names(
    node: ast.AST, module: Module, naming: Naming, place: Callable[[Module, ast.AST], SourcePlace]
) -> Iterator[Coupling]:
    """Names of parts, with the argument they are passed to or compared with."""
    match node:
        case ast.Compare(left=left, comparators=[right]):
            for one, other in ((left, right), (right, left)):
                subject = _subject(one)
                if subject:
                    yield from _as_names(other, subject, module, place)
        case ast.Assign(targets=[ast.Attribute() as target], value=value):
            if _subject(target):
                yield from _as_names(value, target.attr, module, place)
        case ast.Call(func=function):
            for word in node.keywords:
                if word.arg and _is_hosts(function, module, naming):
                    yield from _as_names(word.value, word.arg, module, place)
            called = dotted(function)
            if called and node.args and _is_hosts(function, module, naming):
                yield from _as_names(node.args[0], called[-1], module, place)
            if called == ("setattr",) and len(node.args) == 3 and _is_arguments(node.args[0]):
                key = node.args[1]
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield from _as_names(node.args[2], key.value, module, place)
        case ast.Subscript(value=table, slice=key) if _is_hosts(table, module, naming):
            yield from _as_names(key, (dotted(table) or ("",))[-1], module, place)
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            for flag, given in pairwise(elements):
                if (
                    isinstance(flag, ast.Constant)
                    and isinstance(flag.value, str)
                    and _FLAG.fullmatch(flag.value)
                ):
                    yield from _as_names(given, flag.value[2:].replace("-", "_"), module, place)
        case ast.ClassDef(body=body):
            for statement in body:
                yield from _answered(statement, module, place)


def _answered(
    node: ast.stmt, module: Module, place: Callable[[Module, ast.AST], SourcePlace]
) -> Iterator[Coupling]:
    """Names that a class returns: ``get_default_attention_backend``, ``supported_quantization = [...]``."""
    if isinstance(node, ast.FunctionDef) and node.name.startswith("get_"):
        subject = re.sub(r"^get_(default_)?", "", node.name)
        for inner in ast.walk(node):
            if isinstance(inner, ast.Return) and isinstance(inner.value, ast.Constant):
                yield from _as_names(inner.value, subject, module, place)
    elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.List | ast.Tuple):
        named = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if isinstance(named, ast.Name):
            yield from _as_names(node.value, named.id, module, place)


def _as_names(
    node: ast.expr, subject: str, module: Module, place: Callable[[Module, ast.AST], SourcePlace]
) -> Iterator[Coupling]:
    parts = node.elts if isinstance(node, ast.List | ast.Tuple | ast.Set) else [node]
    for one in parts:
        text = _text(one, module) if isinstance(one, ast.Constant | ast.JoinedStr | ast.Name) else None
        if text is not None and _PART.fullmatch(text):
            yield Coupling("name", text, place(module, one), subject=subject)


def _subject(node: ast.expr) -> str:
    """The argument's name in ``server_args.attention_backend``."""
    return node.attr if isinstance(node, ast.Attribute) and _is_arguments(node.value) else ""


def _is_arguments(node: ast.expr) -> bool:
    return (dotted(node) or ("",))[-1] in _ARGUMENTS


def _is_hosts(node: ast.expr, module: Module, naming: Naming) -> bool:
    return naming.host_name(module, dotted(node)) is not None


def _text(node: ast.expr, module: Module) -> str | None:
    def of_name(name: str) -> object:
        found = module.scope.names.get(name, ())
        value = found[0].node if len(found) == 1 else None
        if isinstance(value, ast.Constant | ast.JoinedStr) and value is not node:
            return evaluate(value, of_name, no_attribute)
        raise Unreadable

    try:
        value = evaluate(node, of_name, no_attribute)
    except (Unreadable, RecursionError):
        return None
    return value if isinstance(value, str) else None


def _documentation(tree: ast.AST) -> Iterator[ast.Constant]:
    """Bare string statements, which have no effect."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value
