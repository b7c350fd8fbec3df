"""What the body of a module or a class binds: each name, with everything that it may be bound to."""

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
"""What a name is bound to: a `def`, a `class`, or the value assigned to it."""

Base = tuple[str, ...] | None
"""The dotted name of a base class, or None where it is an expression."""


class Binding(NamedTuple):
    """One thing that a name may be bound to."""

    node: DefinitionNode | None = None
    """None where the name is bound by an import, or in a way that shows no value: a loop, a pattern, `globals()`."""
    origin: tuple[str, str | None] | None = None
    """For an import: the module, and the name in it; None for the module itself."""
    guarded: bool = False
    """In a `try` that goes on where an import fails."""
    fallback: bool = False
    """In the handler for that."""

    @property
    def alias(self) -> tuple[str, ...] | None:
        """The dotted name that the name is assigned; None where it is something else."""
        return dotted(self.node) if isinstance(self.node, ast.Name | ast.Attribute) else None


class Star(NamedTuple):
    """``from module import *``."""

    module: str
    guarded: bool


class Scope:
    """The names of one body. `reading` fills it."""

    def __init__(self, package: str) -> None:
        self.package = package
        """What relative imports start from."""
        self.names: dict[str, list[Binding]] = {}
        """Alternatives in the order of the source; a binding that surely runs replaces those before it."""
        self.stars: list[Star] = []
        self.for_type_checkers: dict[str, tuple[str, str | None]] = {}
        """Imports under `if TYPE_CHECKING`: they bind nothing, and tell where a `__getattr__` has its names from."""
        self.maybe: dict[str, str] = {}
        """Names that are bound by code which may or may not run, with the reason."""
        self.is_open = False
        """Names may appear that the source does not show."""
        self.exports: list[str] | None = None
        """`__all__`, where there is one that can be read."""
        self.exports_unread = False
        self.set_on: dict[str, set[str]] = {}
        """By the name of a class: attributes assigned from outside its body."""
        self.set_unread: set[str] = set()
        """Classes on which attributes are set whose names the source does not show."""

        self.remade: set[str] = set()
        """Classes that a call was given and whose name then stands for its result: ``X = defstruct(bases=(X,))``."""

    def nodes(self, name: str) -> list[DefinitionNode]:
        """The definitions and values that a name may stand for, imports left out."""
        return [one.node for one in self.names.get(name, ()) if one.node is not None]

    def offers(self, name: str) -> bool | None:
        """Does ``import *`` bring the name, if the module has it? None where `__all__` is computed."""
        if self.exports_unread:
            return None
        return name in self.exports if self.exports is not None else not name.startswith("_")


class ClassScope(Scope):
    """What a class body binds, and what the class stands on."""

    def __init__(self, node: ast.ClassDef, package: str) -> None:
        super().__init__(package)
        self.node = node
        self.bases: list[Base] = [dotted(base) for base in node.bases]
        self.only_adds_dunders = False
        """Open for nothing but a decorator that adds special methods."""

    def is_set_on_instances(self, attribute: str) -> bool:
        """Does a method assign ``self.attribute``?"""
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
