"""Which of our files imports which, read from the sources; nothing is imported.

An import is told apart by where it stands: at the top of a module, inside a function, or under `TYPE_CHECKING`.
Counted are the imports that are written. That importing `a.b` also runs `a/__init__.py` is not an arrow here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

__all__ = ["OURS", "ROOT", "Graph", "Import", "circles", "modules_below", "our_graph", "read_graph"]

ROOT = Path(__file__).parents[2]
OURS = "sglang_platform"
DISTRIBUTIONS = {
    "core": "packages/sglang-platform-core",
    "devtools": "packages/sglang-platform-devtools",
    "cuda": "packages/sglang-platform-cuda",
    "rocm": "packages/sglang-platform-rocm",
    "example_oot": "packages/sglang-platform-example-oot",
    "conformance": "conformance",
}
"""Import name below `sglang_platform` and folder of each distribution."""

Where = Literal["module", "function", "type"]

_PRAGMA = re.compile(r"#\s*(noqa|type:|mypy:|fmt:|pragma|ruff:|pyright:)[^#]*", re.IGNORECASE)
_FOR_THE_FILE = re.compile(r"^# Imports inside functions: \S+ \S+")


@dataclass(frozen=True, order=True)
class Import:
    """One import statement's arrow: `importer` imports `imported`, at `line` of `path`.

    imported: one of our modules, or the dotted name as written for another's (`torch.nn`). explained: for an import
    inside a function, whether a comment says why it stands there.
    """

    importer: str
    imported: str
    where: Where
    path: Path
    line: int
    explained: bool

    def __str__(self) -> str:
        path = self.path.relative_to(ROOT) if self.path.is_relative_to(ROOT) else self.path
        return f"{path}:{self.line} imports {self.imported}"


@dataclass(frozen=True)
class Graph:
    """modules: file by name. own: arrows between them. foreign: imports of other distributions' modules and of the
    standard library. missing: imports of a module of ours that does not exist."""

    modules: Mapping[str, Path]
    own: tuple[Import, ...]
    foreign: tuple[Import, ...]
    missing: tuple[Import, ...]


def modules_below(folder: Path) -> dict[str, Path]:
    """The Python files below a source folder, by module name."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def our_graph(root: Path = ROOT) -> Graph:
    """The graph of our distributions' sources: one to three seconds, once in a process."""
    modules: dict[str, Path] = {}
    for folder in DISTRIBUTIONS.values():
        modules |= modules_below(root / folder / "src")
    return read_graph(modules)


def read_graph(modules: Mapping[str, Path], ours: str = OURS) -> Graph:
    """The graph of `modules`. `ours` is the package that all of them are in: what else begins so is missing."""
    own, foreign, missing = set(), set(), set()
    for name, path in modules.items():
        for found in _File(name, path).imports():
            target = _nearest(found.imported, modules)
            if target is not None:
                if target != name:
                    arrow = Import(name, target, found.where, path, found.line, found.explained)
                    own.add(arrow)
            elif found.imported.partition(".")[0] == ours:
                missing.add(found)
            else:
                foreign.add(found)
    return Graph(modules, tuple(sorted(own)), tuple(sorted(foreign)), tuple(sorted(missing)))


def _nearest(name: str, modules: Mapping[str, Path]) -> str | None:
    """`a.b.c` is a module, or the name `c` in the module `a.b`."""
    if name in modules:
        return name
    parent = name.rpartition(".")[0]
    return parent if parent in modules else None


class _File:
    def __init__(self, name: str, path: Path) -> None:
        text = path.read_text(encoding="utf-8")
        self.name, self.path = name, path
        self.package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        self.lines = text.splitlines()
        self.tree = ast.parse(text, str(path))
        self.imports_by_name = "import_module" in text or "__import__" in text
        self.explained_here = any(_FOR_THE_FILE.match(line) for line in self.lines)

    def imports(self) -> Iterator[Import]:
        yield from self._block(self.tree.body, "module")

    def _block(self, body: list[ast.stmt], where: Where) -> Iterator[Import]:
        first = 0  # line on which a run of imports begins: a comment above it is for all of the run
        for position, node in enumerate(body):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                if position == 0 or not isinstance(body[position - 1], (ast.Import, ast.ImportFrom)):
                    first = node.lineno
                explained = self._explained(node, first)
                for name in self._names(node):
                    yield Import(self.name, name, where, self.path, node.lineno, explained)
            else:
                yield from self._inside(node, where)

    def _inside(self, node: ast.AST, where: Where) -> Iterator[Import]:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from self._block(node.body, "type" if where == "module" else where)
            yield from self._block(node.orelse, where)
            return
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            where = "function"
        if isinstance(node, ast.Call):
            yield from self._call(node, where)
        for _, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                yield from self._block(value, where)
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and (self.imports_by_name or not isinstance(child, ast.expr)):
                    yield from self._inside(child, where)

    def _call(self, node: ast.Call, where: Where) -> Iterator[Import]:
        """`import_module("a.b")` with the name written out."""
        if not node.args or not ast.unparse(node.func).endswith(("import_module", "__import__")):
            return
        if isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str):
            explained = self._explained(node, node.lineno)
            yield Import(self.name, node.args[0].value, where, self.path, node.lineno, explained)

    def _names(self, node: ast.Import | ast.ImportFrom) -> list[str]:
        if isinstance(node, ast.Import):
            return [alias.name for alias in node.names]
        base = node.module or ""
        if node.level:
            above = self.package.split(".")
            base = ".".join([*above[: len(above) - node.level + 1], *([base] if base else [])])
        return [f"{base}.{alias.name}" for alias in node.names]

    def _explained(self, node: ast.stmt | ast.expr, first: int) -> bool:
        last = node.end_lineno or node.lineno
        beside = self.lines[last - 1].encode()[node.end_col_offset or 0 :].decode()
        above = self.lines[first - 2].strip() if first > 1 else ""
        return self.explained_here or _says_why(beside.strip()) or _says_why(above)


def _says_why(text: str) -> bool:
    """A comment of at least two words; a remark to a tool says nothing to a reader."""
    return text.startswith("#") and len(_PRAGMA.sub("", text).strip("# ").split()) >= 2


def circles(arrows: Mapping[str, Collection[str]]) -> list[list[str]]:
    """The groups of names that reach each other, sorted; `arrows` maps a name to those that it points to."""
    reached = {name: _reachable(name, arrows) for name in arrows}
    groups = {
        tuple(sorted(other for other in reached[name] if name in reached.get(other, ())))
        for name in arrows
        if name in reached[name]
    }
    return [list(group) for group in sorted(groups)]


def _reachable(start: str, arrows: Mapping[str, Collection[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = list(arrows.get(start, ()))
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(arrows.get(name, ()))
    return seen
