"""The imports of a file, those inside functions included, each with its guard."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from sglang_platform.devtools.source.conditions import (
    TRY,
    blocks_that_run,
    guards_imports,
    handles_import_errors,
    suppresses,
)
from sglang_platform.devtools.source.module import parse
from sglang_platform.devtools.source.scope import imported_module

__all__ = ["FromImport", "Imported", "ImportedNames", "imports_in", "imports_of"]


class Imported(NamedTuple):
    """``import module``, or ``from module import name``; `name` is "*" for all."""

    module: str
    name: str | None
    line: int
    guarded: bool = False
    """The program survives its failure: it is in a `try` with a handler, or in `contextlib.suppress`."""
    instead_of: tuple[Imported, ...] = ()
    """For an import in a handler: the imports of the `try`; it runs only if one of them fails."""


def imports_of(path: Path) -> list[Imported]:
    """All absolute imports of a file that a process may run; empty for a file that cannot be parsed."""
    try:
        tree = parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return []
    return list(imports_in(tree.body))


def imports_in(
    body: Iterable[ast.stmt],
    package: str | None = None,
    *,
    guarded: bool = False,
    instead_of: tuple[Imported, ...] = (),
) -> Iterator[Imported]:
    """The imports that a process may run, not those for type checkers; relative ones only if `package` is given."""
    for node in body:
        match node:
            case ast.Import():
                for alias in node.names:
                    yield Imported(alias.name, None, node.lineno, guarded, instead_of)
            case ast.ImportFrom(level=level) if level == 0 or package is not None:
                for alias in node.names:
                    module = imported_module(node, package or "")
                    yield Imported(module, alias.name, node.lineno, guarded, instead_of)
            case ast.If():
                inside = blocks_that_run(node)
                yield from imports_in(inside, package, guarded=guarded, instead_of=instead_of)
            case _ if isinstance(node, TRY):
                yield from _of_try(node, package, guarded, instead_of)
            case ast.With() | ast.AsyncWith():
                goes_on = guarded or suppresses(node)[1]
                yield from imports_in(node.body, package, guarded=goes_on, instead_of=instead_of)
            case ast.Match():
                for case in node.cases:
                    yield from imports_in(case.body, package, guarded=guarded, instead_of=instead_of)
            case _:
                for block in ("body", "orelse"):
                    inside = getattr(node, block, [])
                    yield from imports_in(inside, package, guarded=guarded, instead_of=instead_of)


def _of_try(
    node: ast.Try, package: str | None, guarded: bool, instead_of: tuple[Imported, ...]
) -> Iterator[Imported]:
    goes_on = guarded or guards_imports(node)
    tried = list(imports_in(node.body, package, guarded=goes_on, instead_of=instead_of))
    yield from tried
    for handler in node.handlers:
        stands_in = (*instead_of, *(tried if handles_import_errors(handler) else ()))
        yield from imports_in(handler.body, package, guarded=guarded, instead_of=stands_in)
    rest = [*node.orelse, *node.finalbody]
    yield from imports_in(rest, package, guarded=guarded, instead_of=instead_of)


class FromImport(NamedTuple):
    """``from module import name``, with the absolute name of the module."""

    module: str
    name: str


class ImportedNames:
    """The names that the imports of a module bind, at any depth.

    `names`: bound name -> full dotted name; the first import of a name counts. `stars`: the modules of ``import *``.
    `for_type_checkers`: include imports under `TYPE_CHECKING`.
    """

    def __init__(self, tree: ast.Module, package: str, *, for_type_checkers: bool = False) -> None:
        self.from_imports: list[FromImport] = []
        self.names: dict[str, str] = {}
        for node in _import_statements(tree.body, for_type_checkers):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    bound = alias.asname or alias.name.partition(".")[0]
                    self.names[bound] = alias.name if alias.asname else bound
            else:
                module = imported_module(node, package)
                for alias in node.names:
                    self.from_imports.append(FromImport(module, alias.name))
                    if alias.name != "*":
                        self.names[alias.asname or alias.name] = f"{module}.{alias.name}"

    @property
    def stars(self) -> list[str]:
        return [one.module for one in self.from_imports if one.name == "*"]

    def meaning(self, name: tuple[str, ...]) -> str | None:
        """The full dotted name that ``first.rest`` stands for; None where its first part is not imported."""
        first = self.names.get(name[0]) if name else None
        return None if first is None else ".".join((first, *name[1:]))


def _import_statements(
    body: Iterable[ast.stmt], for_type_checkers: bool
) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports in reverse order, so that the first import of a name is written last and kept."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and not for_type_checkers:
            waiting += blocks_that_run(node)
        else:
            for block in ("body", "orelse", "handlers", "finalbody", "cases"):
                waiting += getattr(node, block, ())
