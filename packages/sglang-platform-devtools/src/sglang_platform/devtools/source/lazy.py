"""Names that a module creates on first use, in its `__getattr__`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from sglang_platform.devtools.source.module import Module
from sglang_platform.devtools.source.scope import imported_module

__all__ = ["lazy_origin", "may_make"]


def lazy_origin(module: Module, name: str, is_module: Callable[[str], bool]) -> tuple[str, str | None] | None:
    """(module, name there) that a module's `__getattr__` imports for a name.

    Read from a ``from ... import`` in the function, or an entry of a literal table: ``"Name": "pkg.mod"`` or
    ``"Name": ("pkg.mod", "OtherName")``; else from the import under `TYPE_CHECKING`.
    """
    for node in _getter(module):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return imported_module(node, module.package), alias.name
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == name:
                    words = [str(one.value) for one in ast.walk(value) if isinstance(one, ast.Constant)]
                    if words and is_module(words[0]):
                        return words[0], words[1] if len(words) > 1 else name
    return module.scope.for_type_checkers.get(name) if may_make(module, name) else None


def may_make(module: Module, name: str) -> bool:
    """False if the module's `__getattr__` raises AttributeError for names that the module does not spell."""
    if any(isinstance(one, ast.Constant) and one.value == name for one in ast.walk(module.tree)):
        return True
    if not module.scope.nodes("__getattr__"):
        return True  # imported from elsewhere
    refuses = False
    for node in _getter(module):
        if isinstance(node, ast.Raise) and node.exc is not None:
            refuses |= "AttributeError" in ast.dump(node.exc)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
            # getattr(import_module(table[name]), name) uses a table; getattr(module, name) may find any name.
            asks_table = isinstance(node.args[0], ast.Call)
            if not asks_table:
                return True
    return not refuses


def _getter(module: Module) -> Iterator[ast.AST]:
    """Every node of the module's `__getattr__`, if the module itself defines it."""
    for node in module.scope.nodes("__getattr__"):
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            yield from ast.walk(node)
