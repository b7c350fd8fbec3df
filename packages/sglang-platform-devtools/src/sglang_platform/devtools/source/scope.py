"""The names that the body of a module or a class binds, each with its possible bindings."""

from __future__ import annotations

import ast
from typing import NamedTuple

from sglang_platform.devtools.source.values import dotted

__all__ = [
    "Base",
    "Binding",
    "ClassScope",
    "DefinitionNode",
    "Scope",
    "Star",
    "imported_module",
    "is_accessory",
]

DefinitionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.expr
"""A name's definition: a `def`, a `class`, or the assigned value."""

Base = tuple[str, ...] | None
"""The dotted name of a base class, or None where it is an expression."""


class Binding(NamedTuple):
    """One possible binding of a name."""

    node: DefinitionNode | None = None
    """None if the name is bound by an import, or without a visible value: by a loop, a pattern, `globals()`."""
    origin: tuple[str, str | None] | None = None
    """For an import: the module, and the name in it; None for the module itself."""
    guarded: bool = False
    """In a `try` that handles a failed import."""
    fallback: bool = False
    """In a handler of a failed import."""

    @property
    def alias(self) -> tuple[str, ...] | None:
        """The dotted name that is assigned to this name; None for any other value."""
        return dotted(self.node) if isinstance(self.node, ast.Name | ast.Attribute) else None


class Star(NamedTuple):
    """``from module import *``."""

    module: str
    guarded: bool


class Scope:
    """The names of one body. `reading` fills it."""

    def __init__(self, package: str) -> None:
        self.package = package
        """The package that relative imports start from."""
        self.names: dict[str, list[Binding]] = {}
        """Alternatives in the order of the source; a binding that surely runs replaces those before it."""
        self.stars: list[Star] = []
        self.for_type_checkers: dict[str, tuple[str, str | None]] = {}
        """Imports under `if TYPE_CHECKING`: they bind nothing, but show the origin of a `__getattr__`'s names."""
        self.maybe: dict[str, str] = {}
        """Names that are bound only if some code runs, with the condition."""
        self.is_open = False
        """True if names may exist that the source does not show."""
        self.exports: list[str] | None = None
        """`__all__`, if it exists and can be read."""
        self.exports_unread = False
        self.set_on: dict[str, set[str]] = {}
        """Class name -> attributes assigned from outside the class body."""
        self.set_unread: set[str] = set()
        """Classes on which attributes with computed names are set."""

        self.remade: set[str] = set()
        """Classes that are passed to a call and whose name is rebound to its result: ``X = defstruct(bases=(X,))``."""

    def nodes(self, name: str) -> list[DefinitionNode]:
        """The definitions and values that a name may stand for, imports left out."""
        return [one.node for one in self.names.get(name, ()) if one.node is not None]

    def offers(self, name: str) -> bool | None:
        """Whether ``import *`` binds the name, if the module has it; None if `__all__` is computed."""
        if self.exports_unread:
            return None
        return name in self.exports if self.exports is not None else not name.startswith("_")


class ClassScope(Scope):
    """The names that a class body binds, and the base classes."""

    def __init__(self, node: ast.ClassDef, package: str) -> None:
        super().__init__(package)
        self.node = node
        self.bases: list[Base] = [dotted(base) for base in node.bases]
        self.only_adds_dunders = False
        """`is_open` only because of a decorator that adds special methods."""

    def is_set_on_instances(self, attribute: str) -> bool:
        """True if a method assigns ``self.attribute``."""
        return any(
            isinstance(node.ctx, ast.Store) and dotted(node.value) == ("self",)
            for node in ast.walk(self.node)
            if isinstance(node, ast.Attribute) and node.attr == attribute
        )


def is_accessory(node: DefinitionNode | None) -> bool:
    """The setter of a property or the overload of a function, which nobody calls by its name."""
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and any(
        (dotted(one) or ("",))[-1] in ("setter", "getter", "deleter", "overload")
        for one in node.decorator_list
    )


def imported_module(node: ast.ImportFrom, package: str) -> str:
    """The absolute name of the module that a `from ... import` names, written in `package`."""
    if not node.level:
        return node.module or ""
    above = package.split(".")
    return ".".join([*above[: len(above) - node.level + 1], *([node.module] if node.module else [])])
