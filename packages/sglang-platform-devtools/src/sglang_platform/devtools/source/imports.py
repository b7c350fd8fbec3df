"""The imports of a file, those inside functions included, each with its guard."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from sglang_platform.devtools.source.conditions import (
    TRY,
    blocks,
    blocks_that_run,
    guards_imports,
    handles_import_errors,
    suppresses,
)
from sglang_platform.devtools.source.module import parse
from sglang_platform.devtools.source.scope import imported_module

__all__ = ["Imported", "ImportedNames", "imports_of"]


class Imported(NamedTuple):
    """``import module``, or ``from module import name``; `name` is "*" for all."""

    module: str
    name: str | None
    line: int
    guarded: bool = False
    """The program survives its failure: it is in a `try` with a handler, or in `contextlib.suppress`."""
    instead_of: tuple[Imported, ...] = ()
    """For an import in a handler: the imports of the `try`; it runs only if one of them fails."""
    alias: str | None = None
    """The name that it binds, where it is written."""


def imports_of(path: Path) -> list[Imported]:
    """All absolute imports of a file that a process may run; empty for a file that cannot be parsed."""
    try:
        tree = parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return []
    return list(_imports_in(tree.body, _Around()))


class _Around(NamedTuple):
    """What encloses a statement. `package`: where relative imports start from; None to leave them out."""

    package: str | None = None
    for_type_checkers: bool = False
    """Imports under `TYPE_CHECKING` count too."""
    guarded: bool = False
    instead_of: tuple[Imported, ...] = ()


def _imports_in(body: Iterable[ast.stmt], around: _Around) -> Iterator[Imported]:
    """The imports that a process may run, at any depth."""
    for node in body:
        match node:
            case ast.Import():
                for one in node.names:
                    yield Imported(one.name, None, node.lineno, *around[2:], one.asname)
            case ast.ImportFrom(level=level) if level == 0 or around.package is not None:
                module = imported_module(node, around.package or "")
                for one in node.names:
                    yield Imported(module, one.name, node.lineno, *around[2:], one.asname)
            case ast.If() if not around.for_type_checkers:
                yield from _imports_in(blocks_that_run(node), around)
            case _ if isinstance(node, TRY):
                yield from _of_try(node, around)
            case ast.With() | ast.AsyncWith():
                goes_on = around.guarded or suppresses(node)[1]
                yield from _imports_in(node.body, around._replace(guarded=goes_on))
            case _:
                for block in blocks(node):
                    yield from _imports_in(block, around)


def _of_try(node: ast.Try, around: _Around) -> Iterator[Imported]:
    goes_on = around.guarded or guards_imports(node)
    tried = list(_imports_in(node.body, around._replace(guarded=goes_on)))
    yield from tried
    for handler in node.handlers:
        stands_in = (*around.instead_of, *(tried if handles_import_errors(handler) else ()))
        yield from _imports_in(handler.body, around._replace(instead_of=stands_in))
    yield from _imports_in([*node.orelse, *node.finalbody], around)


class ImportedNames:
    """The names that the imports of a module bind, at any depth.

    `names`: bound name -> full dotted name; the first import of a name counts. `stars`: the modules of ``import *``.
    `for_type_checkers`: include imports under `TYPE_CHECKING`.
    """

    def __init__(self, tree: ast.Module, package: str, *, for_type_checkers: bool = False) -> None:
        self.names: dict[str, str] = {}
        self.stars: list[str] = []
        every = list(_imports_in(tree.body, _Around(package, for_type_checkers)))
        for one in reversed(every):  # the first import of a name is written last, and kept
            if one.name is None:
                first = one.module.partition(".")[0]
                self.names[one.alias or first] = one.module if one.alias else first
                continue
            if one.name == "*":
                self.stars.append(one.module)
            else:
                self.names[one.alias or one.name] = f"{one.module}.{one.name}"

    def meaning(self, name: tuple[str, ...]) -> str | None:
        """The full dotted name that ``first.rest`` stands for; None where its first part is not imported."""
        first = self.names.get(name[0]) if name else None
        return None if first is None else ".".join((first, *name[1:]))
