"""What the source of a module defines and imports, as syntax: classes, functions, imports, constants."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from sglang_platform.core.discovery.entry_target import top_level
from sglang_platform.core.discovery.module_search import find

__all__ = ["ModuleSource", "SourceReader", "dotted_name", "package_files"]


class ModuleSource:
    """The top level of one module, branches of `if` and `try` included."""

    def __init__(self, name: str, path: Path, tree: ast.Module) -> None:
        self.name = name
        self.path = path
        self.tree = tree
        self.classes: dict[str, ast.ClassDef] = {}
        self.functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
        self.texts: dict[str, str] = {}
        """Names bound to a text that the source spells out."""
        self.imports: dict[str, tuple[str, str | None]] = {}
        """Each imported name, with its module and its name there; None: the module itself."""
        self.stars: list[str] = []
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        for statement in top_level(tree.body):
            if isinstance(statement, ast.ClassDef):
                self.classes[statement.name] = statement
            elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                self.functions[statement.name] = statement
            elif isinstance(statement, ast.Assign | ast.AnnAssign):
                self._assignment(statement)
        for node in ast.walk(tree):  # imports inside functions, too
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._imported(node, package)

    def text(self, node: ast.expr | None) -> str | None:
        """The text of an expression made of literals and the module's own constants; None for any other."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        if isinstance(node, ast.Name):
            return self.texts.get(node.id)
        parts: list[str | None] = []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            parts = [self.text(node.left), self.text(node.right)]
        elif isinstance(node, ast.JoinedStr):
            parts = [
                self.text(part.value) if isinstance(part, ast.FormattedValue) else self.text(part)
                for part in node.values
            ]
        known = [part for part in parts if part is not None]
        return "".join(known) if parts and len(known) == len(parts) else None

    def _assignment(self, statement: ast.Assign | ast.AnnAssign) -> None:
        text = self.text(statement.value)
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            if isinstance(target, ast.Name) and text is not None:
                self.texts[target.id] = text

    def _imported(self, node: ast.Import | ast.ImportFrom, package: str) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                self.imports.setdefault(name, (alias.name if alias.asname else name, None))
            return
        module = node.module or ""
        if node.level:
            above = package.split(".")
            above = above[: len(above) - node.level + 1]
            module = ".".join([*above, module] if module else above)
        for alias in node.names:
            if alias.name == "*":
                self.stars.append(module)
            else:
                self.imports.setdefault(alias.asname or alias.name, (module, alias.name))


class SourceReader:
    """Reads modules by name or by file, each once. Nothing is imported."""

    def __init__(self) -> None:
        self._read: dict[str, ModuleSource | None] = {}

    def module(self, name: str) -> ModuleSource | None:
        """The module of that name; None where there is none, or no source that can be read."""
        if name not in self._read:
            spec, _ = find(name)
            origin = spec.origin if spec is not None else None
            readable = origin is not None and origin.endswith(".py")
            self._read[name] = self.file(name, Path(origin or "")) if readable else None
        return self._read[name]

    def file(self, name: str, path: Path) -> ModuleSource | None:
        """The module in this file."""
        try:
            tree = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError):
            return None
        return ModuleSource(name, path, tree)

    def find_class(self, module: str, path: str) -> tuple[ModuleSource, ast.ClassDef] | None:
        """The class `path` of a module, followed through imports to where it is written."""
        return self._find_class(module, path, frozenset())

    def _find_class(
        self, module: str, path: str, seen: frozenset[tuple[str, str]]
    ) -> tuple[ModuleSource, ast.ClassDef] | None:
        source = self.module(module)
        if (module, path) in seen or source is None:
            return None
        seen |= {(module, path)}
        first, _, rest = path.partition(".")
        if first in source.classes and not rest:
            return source, source.classes[first]
        for origin, name in self.origins(source, first):
            found = self._find_class(origin, ".".join(filter(None, (name, rest))), seen)
            if found is not None:
                return found
            if name is not None and rest:  # a submodule imported by name
                found = self._find_class(f"{origin}.{name}", rest, seen)
            elif name is None:
                found = self._in_submodule(origin, rest, seen)
            if found is not None:
                return found
        return None

    def origins(self, source: ModuleSource, name: str) -> Iterator[tuple[str, str | None]]:
        """Where a name of a module may come from."""
        if name in source.imports:
            yield source.imports[name]
        for star in source.stars:
            yield star, name

    def _in_submodule(
        self, module: str, path: str, seen: frozenset[tuple[str, str]]
    ) -> tuple[ModuleSource, ast.ClassDef] | None:
        """`import a.b` binds `a`; the rest of the dotted name walks down to the module."""
        part, _, rest = path.partition(".")
        while rest:
            module = f"{module}.{part}"
            found = self._find_class(module, rest, seen)
            if found is not None:
                return found
            part, _, rest = rest.partition(".")
        return None


def dotted_name(node: ast.expr) -> str | None:
    """`a.b.c` of a name or an attribute, the subscript of a generic left out; None for any other expression."""
    if isinstance(node, ast.Subscript):
        return dotted_name(node.value)
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        above = dotted_name(node.value)
        return None if above is None else f"{above}.{node.attr}"
    return None


def package_files(module: str) -> Iterator[tuple[str, Path]]:
    """The modules of the distribution part that `module` belongs to, as (name, file): its outermost package that is
    no namespace, tests left out; or the module alone, where it is in none."""
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        name = ".".join(parts[:count])
        spec, _ = find(name)
        if spec is None or (spec.origin is None and spec.submodule_search_locations is not None):
            continue
        if spec.origin is None or not spec.origin.endswith(".py"):
            return
        for folder in spec.submodule_search_locations or ():
            root = Path(folder)
            for path in sorted(root.rglob("*.py")):
                inside = path.relative_to(root).with_suffix("").parts
                if not {"tests", "test"} & set(inside):
                    yield ".".join((name, *inside)).removesuffix(".__init__"), path
        if not spec.submodule_search_locations:
            yield name, Path(spec.origin)
        return
