"""How one module uses names: in functions that run later, or while the module itself runs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sglang_platform.core.inspect.hook_check.sources import ModuleSource, imported_module

__all__ = ["MAIN", "Bindings", "ModuleUses", "Use"]

_HANDS_ON = {
    "abstractmethod",
    "asynccontextmanager",
    "cache",
    "cached_property",
    "classmethod",
    "contextmanager",
    "dataclass",
    "deprecated",
    "final",
    "inference_mode",
    "lru_cache",
    "no_grad",
    "override",
    "property",
    "runtime_checkable",
    "staticmethod",
    "total_ordering",
}
"""Decorators whose result is all that refers to their function."""

MAIN = "what runs under `if __name__ == '__main__'`, where this module is another one"
_SPELLED = re.compile(r"(?:[\w.]+[.:])?([A-Za-z_]\w*)")


class Use(NamedTuple):
    """One place in the code that names something.

    `late`: it reads the name again each time, after the module has run, so that it sees a hook. Else it has read it
    while the module ran, and keeps the original.
    """

    line: int
    late: bool
    how: str
    prefix: tuple[str, ...] | None = ()
    """What stands before an attribute; None where that is an expression."""


class Bindings:
    """The modules that a file's imports bind to names."""

    def __init__(self, source: ModuleSource) -> None:
        self.from_imports: list[tuple[str, str, str]] = []
        """(module, name, bound as) of each `from module import name` that runs."""
        self._names: dict[str, str] = {}
        for node in walk(source.tree.body):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    bound = alias.asname or alias.name.partition(".")[0]
                    self._names[bound] = alias.name if alias.asname else bound
            elif isinstance(node, ast.ImportFrom):
                module = imported_module(node, source.package)
                for alias in node.names:
                    bound = alias.asname or alias.name
                    self.from_imports.append((module, alias.name, bound))
                    self._names[bound] = f"{module}.{alias.name}"

    def meaning(self, prefix: tuple[str, ...]) -> str | None:
        """The full dotted name that an imported `prefix` stands for; None where its first part is not imported."""
        first = self._names.get(prefix[0]) if prefix else None
        return None if first is None else ".".join((first, *prefix[1:]))


class ModuleUses:
    """Every use of names, attributes and of strings that spell a name in one module, by the name."""

    def __init__(self, source: ModuleSource) -> None:
        self.names: dict[str, list[Use]] = {}
        self.attributes: dict[str, list[Use]] = {}
        self.strings: dict[str, list[Use]] = {}
        self._main = False
        self._block(source.tree.body, late=False, in_class=False)

    def _block(self, body: Iterable[ast.stmt], late: bool, in_class: bool) -> None:
        for node in body:
            self._statement(node, late, in_class)

    def _statement(self, node: ast.stmt, late: bool, in_class: bool) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self._function(node, late, in_class)
        elif isinstance(node, ast.ClassDef):
            for base in (*node.bases, *node.keywords):
                self._read(base, True, f"class {node.name}")  # the engine gives subclasses their new base
            for decorator in node.decorator_list:
                self._read(decorator, late, f"a decorator of {node.name}", own=node.name)
                self._note_own(node, decorator, late)
            self._block(node.body, late, True)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            self._block(node.orelse, late, in_class)
        elif isinstance(node, ast.If) and not late and _is_main_guard(node.test):
            self._main = True
            self._block(node.body, late, in_class)
            self._main = False
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return  # a docstring
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            self._assignment(node, late, in_class)
        else:
            for part in ast.iter_child_nodes(node):
                if isinstance(part, ast.stmt):
                    self._statement(part, late, in_class)
                elif isinstance(part, ast.ExceptHandler | ast.match_case):
                    self._block(part.body, late, in_class)
                    for field in ("type", "guard", "pattern"):
                        more = getattr(part, field, None)
                        if more is not None:
                            self._read(more, late, "")
                else:
                    self._read(part, late, "")

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, late: bool, in_class: bool) -> None:
        for decorator in node.decorator_list:
            bare = decorator.func if isinstance(decorator, ast.Call) else decorator
            if not _is_accessor(bare):
                self._read(decorator, late, f"a decorator of {node.name}", own=node.name)
            self._note_own(node, decorator, late)
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self._read(default, late, f"a default argument of {node.name}")
        for one in ast.walk(node.args):
            if isinstance(one, ast.arg) and one.annotation is not None:
                self._read(one.annotation, True, "")
        if node.returns is not None:
            self._read(node.returns, True, "")
        self._block(node.body, True, False)

    def _note_own(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, decorator: ast.expr, late: bool
    ) -> None:
        """A decorator is given what it decorates, and may keep it."""
        bare = decorator.func if isinstance(decorator, ast.Call) else decorator
        if not late and not _is_accessor(bare) and ast.unparse(bare).rpartition(".")[2] not in _HANDS_ON:
            use = Use(decorator.lineno, False, f"its decorator `@{_short(decorator)}`")
            self._note(self.names, node.name, use)

    def _assignment(
        self, node: ast.Assign | ast.AugAssign | ast.AnnAssign, late: bool, in_class: bool
    ) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if any(isinstance(one, ast.Name) and one.id == "__all__" for one in targets):
            return
        if isinstance(node, ast.AnnAssign):
            self._read(node.annotation, True, "")
        for target in targets:
            self._read(target, late, "", beside=node)
        if node.value is not None:
            # A second name of a module is swept with the first; a class and a table keep what they were given.
            alias = isinstance(node.value, ast.Name) and isinstance(targets[0], ast.Name) and not in_class
            self._read(node.value, late or alias, f"`{_short(node)}`")

    def _read(
        self, root: ast.AST, late: bool, how: str, beside: ast.AST | None = None, own: str | None = None
    ) -> None:
        """Note every use in an expression. The bodies of lambdas run later.

        A string next to the name itself, as in ``register("f", f)``, says nothing of a later use: it is left out where
        it spells `own`, or a name that stands `beside` it.
        """
        waiting: list[tuple[ast.AST, bool]] = [(root, late)]
        while waiting:
            node, runs_late = waiting.pop()
            if isinstance(node, ast.Lambda):
                waiting += [(one, runs_late) for one in ast.iter_child_nodes(node.args)]
                waiting.append((node.body, True))
                continue
            where = how or (f"`{_short(root)}`" if not runs_late else "")
            if self._main:
                runs_late, where = False, MAIN
            line = getattr(node, "lineno", 0)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                self._note(self.names, node.id, Use(line, runs_late, where))
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                self._note(self.attributes, node.attr, Use(line, runs_late, where, dotted(node.value)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200:
                name = _SPELLED.fullmatch(node.value)
                if name is not None and (runs_late or not _mentions(beside or root, name[1], own)):
                    self._note(self.strings, name[1], Use(line, True, where))
            waiting += [(one, runs_late) for one in ast.iter_child_nodes(node)]

    @staticmethod
    def _note(table: dict[str, list[Use]], name: str, use: Use) -> None:
        table.setdefault(name, []).append(use)


def walk(body: Iterable[ast.stmt]) -> Iterator[ast.AST]:
    """Every node that may run: all but what only type checkers read."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            waiting.extend(node.orelse)
        else:
            waiting.extend(ast.iter_child_nodes(node))


def dotted(node: ast.expr) -> tuple[str, ...] | None:
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.Attribute):
        above = dotted(node.value)
        return None if above is None else (*above, node.attr)
    return None


def _is_accessor(decorator: ast.expr) -> bool:
    """``@name.setter``: it names the property, as the definition itself does."""
    return isinstance(decorator, ast.Attribute) and decorator.attr in ("setter", "getter", "deleter")


def _mentions(root: ast.AST, name: str, own: str | None) -> bool:
    return name == own or any(isinstance(one, ast.Name) and one.id == name for one in ast.walk(root))


def _is_main_guard(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and {"'__name__'", "'__main__'"} <= {
        repr(getattr(one, "id", getattr(one, "value", None))) for one in ast.walk(test)
    }


def _short(node: ast.AST) -> str:
    text = ast.unparse(node).partition("\n")[0]
    return text if len(text) <= 70 else text[:67] + "..."
