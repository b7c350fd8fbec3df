"""The imports of a file, those inside functions included, and under which guard each of them runs."""

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

__all__ = ["FromImport", "Imported", "ImportedNames", "imports_of"]


class Imported(NamedTuple):
    """``import module``, or ``from module import name``; `name` is "*" for all. Relative imports are left out."""

    module: str
    name: str | None
    line: int
    guarded: bool = False
    """Where it fails, the program goes on: `try` with a handler for that, `contextlib.suppress`."""
    instead_of: tuple[Imported, ...] = ()
    """The imports of the `try` in whose handler it stands: it runs only where one of them fails."""


def imports_of(path: Path) -> list[Imported]:
    """All imports of a file that a process may run. None for type checkers, none of a file that cannot be parsed."""
    try:
        tree = parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return []
    return list(_imports(tree.body, guarded=False, instead_of=()))


def _imports(
    body: Iterable[ast.stmt], *, guarded: bool, instead_of: tuple[Imported, ...]
) -> Iterator[Imported]:
    for node in body:
        match node:
            case ast.Import():
                for alias in node.names:
                    yield Imported(alias.name, None, node.lineno, guarded, instead_of)
            case ast.ImportFrom(level=0, module=str(module)):
                for alias in node.names:
                    yield Imported(module, alias.name, node.lineno, guarded, instead_of)
            case ast.If():
                yield from _imports(blocks_that_run(node), guarded=guarded, instead_of=instead_of)
            case _ if isinstance(node, TRY):
                yield from _of_try(node, guarded, instead_of)
            case ast.With() | ast.AsyncWith():
                inside = guarded or suppresses(node)[1]
                yield from _imports(node.body, guarded=inside, instead_of=instead_of)
            case ast.Match():
                for case in node.cases:
                    yield from _imports(case.body, guarded=guarded, instead_of=instead_of)
            case _:
                for block in ("body", "orelse"):
                    yield from _imports(getattr(node, block, ()), guarded=guarded, instead_of=instead_of)


def _of_try(node: ast.Try, guarded: bool, instead_of: tuple[Imported, ...]) -> Iterator[Imported]:
    inside = guarded or guards_imports(node)
    tried = list(_imports(node.body, guarded=inside, instead_of=instead_of))
    yield from tried
    for handler in node.handlers:
        stands_in = tuple(tried) if handles_import_errors(handler) else ()
        yield from _imports(handler.body, guarded=guarded, instead_of=(*instead_of, *stands_in))
    yield from _imports([*node.orelse, *node.finalbody], guarded=guarded, instead_of=instead_of)


class FromImport(NamedTuple):
    """``from module import name``, with the absolute name of the module."""

    module: str
    name: str


class ImportedNames:
    """What the imports of a module bind, wherever in it they stand; what only type checkers read is left out."""

    def __init__(self, tree: ast.Module, package: str) -> None:
        self.from_imports: list[FromImport] = []
        self._names: dict[str, str] = {}
        for node in _that_runs(tree.body):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    bound = alias.asname or alias.name.partition(".")[0]
                    self._names[bound] = alias.name if alias.asname else bound
            elif isinstance(node, ast.ImportFrom):
                module = imported_module(node, package)
                for alias in node.names:
                    self.from_imports.append(FromImport(module, alias.name))
                    self._names[alias.asname or alias.name] = f"{module}.{alias.name}"

    def meaning(self, name: tuple[str, ...]) -> str | None:
        """The full dotted name that ``first.rest`` stands for; None where its first part is not imported."""
        first = self._names.get(name[0]) if name else None
        return None if first is None else ".".join((first, *name[1:]))


def _that_runs(body: Iterable[ast.stmt]) -> Iterator[ast.AST]:
    """Every node that some process may run."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(blocks_that_run(node) if isinstance(node, ast.If) else ast.iter_child_nodes(node))
