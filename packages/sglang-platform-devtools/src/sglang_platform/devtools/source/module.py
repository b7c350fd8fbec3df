"""One module: its text, its syntax tree, and what it binds."""

from __future__ import annotations

import ast
import contextlib
import functools
import gc
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from sglang_platform.devtools.source.reading import read_class, read_module
from sglang_platform.devtools.source.scope import ClassScope, Scope

__all__ = ["Module", "Modules", "modules_in", "parse", "without_collecting"]


class Module:
    """A parsed module. Raises SyntaxError or ValueError where this Python cannot parse the text."""

    def __init__(self, name: str, path: str, text: bytes) -> None:
        self.name = name
        self.path = path
        """The file, for messages; inside a wheel, the name of its member."""
        is_package = path.endswith("__init__.py")
        self.package = name if is_package else name.rpartition(".")[0]
        self.tree = parse(text)
        self._classes: dict[int, ClassScope] = {}

    @functools.cached_property
    def scope(self) -> Scope:
        return read_module(self.tree, self.package)

    @functools.cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the tree, for searches by many names."""
        return list(ast.walk(self.tree))

    def class_scope(self, node: ast.ClassDef) -> ClassScope:
        """What a class of this module binds. Read once."""
        if id(node) not in self._classes:
            self._classes[id(node)] = read_class(node, self.package)
        return self._classes[id(node)]

    def spells(self, word: str) -> bool:
        """Does the source have the word as a name, an attribute or a text of its own?"""
        return any(
            word in (getattr(one, "id", None), getattr(one, "attr", None), getattr(one, "value", None))
            for one in self.nodes
            if isinstance(one, ast.Name | ast.Attribute | ast.Constant)
        )


class Modules(Protocol):
    """Where modules are found by name: an environment, a folder or a wheel."""

    called: str
    """For messages: "the host", "this environment"."""

    def has(self, module: str) -> bool:
        """Is there a module or package of this name, a package without an `__init__` included?"""

    def module(self, name: str) -> Module | None:
        """The parsed module. None where there is no Python source, or none that this Python can parse."""

    def unreadable(self, name: str) -> str:
        """Why there is no parsed module of a name that exists; empty for a package without an `__init__`."""

    def children(self, package: str) -> list[str]:
        """The last names of the modules right below a package; the top packages for an empty name."""

    def live_class(self, dotted: str) -> type | None:
        """The class of this full name, where its module is loaded in this process and is the one that is read."""


def parse(text: bytes) -> ast.Module:
    """The syntax tree, without the warnings of a text that is not ours. Raises SyntaxError and ValueError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # escapes in strings
        warnings.simplefilter("ignore", DeprecationWarning)
        return ast.parse(text)


def modules_in(parts: Sequence[str], has: Callable[[str], bool]) -> int:
    """How many of the first parts of a dotted name are a module, as many as possible; 0 where none is."""
    return next((count for count in range(len(parts), 0, -1) if has(".".join(parts[:count]))), 0)


@contextlib.contextmanager
def without_collecting() -> Iterator[None]:
    """Syntax trees are many objects and no garbage. The collector takes a third of the time to look through them."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
