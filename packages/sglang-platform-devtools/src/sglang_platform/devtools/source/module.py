"""One module: its text, its syntax tree, and its scope."""

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
        """The file, for messages; inside a wheel, the name of the member."""
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
        """The scope of a class of this module, cached."""
        if id(node) not in self._classes:
            self._classes[id(node)] = read_class(node, self.package)
        return self._classes[id(node)]

    def spells(self, word: str) -> bool:
        """True if the source has the word as a name, an attribute or a whole string."""
        return any(
            word in (getattr(one, "id", None), getattr(one, "attr", None), getattr(one, "value", None))
            for one in self.nodes
            if isinstance(one, ast.Name | ast.Attribute | ast.Constant)
        )


class Modules(Protocol):
    """A source of modules by name: an environment, a folder or a wheel."""

    called: str
    """For messages: "the host", "this environment"."""

    def has(self, module: str) -> bool:
        """True if there is a module or package of this name, namespace packages included."""

    def module(self, name: str) -> Module | None:
        """The parsed module; None without Python source, or if this Python cannot parse it."""

    def unreadable(self, name: str) -> str:
        """Why an existing name has no parsed module; empty for a package without an `__init__`."""

    def children(self, package: str) -> list[str]:
        """The last names of a package's direct submodules; the top-level packages for an empty name."""

    def live_class(self, dotted: str) -> type | None:
        """The class of this full name, if this process has loaded its module from the same file."""


def parse(text: bytes) -> ast.Module:
    """The syntax tree, with Python's warnings silenced. Raises SyntaxError and ValueError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # invalid escapes in strings
        warnings.simplefilter("ignore", DeprecationWarning)
        return ast.parse(text)


def modules_in(parts: Sequence[str], has: Callable[[str], bool]) -> int:
    """The length of the longest prefix of a dotted name that is a module; 0 if none is."""
    return next((count for count in range(len(parts), 0, -1) if has(".".join(parts[:count]))), 0)


@contextlib.contextmanager
def without_collecting() -> Iterator[None]:
    """Disable the garbage collector: syntax trees are many objects without garbage, and scanning takes a third of the
    time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
