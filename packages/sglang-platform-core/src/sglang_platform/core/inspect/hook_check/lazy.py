"""Names that a module makes otherwise than by a statement that shows them: on first use, or in its own `globals()`."""

from __future__ import annotations

import ast
from collections.abc import Callable

from sglang_platform.core.inspect.hook_check.sources import ModuleSource, imported_module, statements

__all__ = ["lazy_origin", "makes_names", "may_make"]


def lazy_origin(module: ModuleSource, name: str, is_module: Callable[[str], bool]) -> tuple[str, str] | None:
    """(module, name there) that a module's `__getattr__` imports for a name.

    Told from a ``from ... import`` in the function, or an entry of a literal table: ``"Name": "pkg.mod"`` or
    ``"Name": ("pkg.mod", "OtherName")``.
    """
    for node in ast.walk(module.definitions["__getattr__"][-1]):
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
    return None


def may_make(module: ModuleSource, name: str) -> bool:
    """Could the module's `__getattr__` answer for this name? Not if it refuses what the module does not spell."""
    if any(isinstance(one, ast.Constant) and one.value == name for one in ast.walk(module.tree)):
        return True
    refuses = False
    for node in ast.walk(module.definitions["__getattr__"][-1]):
        if isinstance(node, ast.Raise) and node.exc is not None:
            refuses |= "AttributeError" in ast.dump(node.exc)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
            # getattr(import_module(table[name]), name) asks a table; getattr(module, name) may know any name.
            asks_table = isinstance(node.args[0], ast.Call)
            if not asks_table:
                return True
    return not refuses


def makes_names(body: list[ast.stmt]) -> bool:
    """Does a module write into its own namespace by other means than statements that show the name?"""
    for node in statements(body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for one in ast.walk(node):
            if isinstance(one, ast.Subscript) and isinstance(one.ctx, ast.Store) and _is_namespace(one.value):
                return True
            if isinstance(one, ast.Call) and _writes_names(one):
                return True
    return False


def _writes_names(call: ast.Call) -> bool:
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr in ("update", "setdefault", "__setitem__") and _is_namespace(function.value)
    if not isinstance(function, ast.Name):
        return False
    return function.id == "exec" or (function.id == "setattr" and "modules" in ast.dump(call.args[0]))


def _is_namespace(node: ast.expr) -> bool:
    """``globals()``, ``vars()``, ``locals()``, ``sys.modules``"""
    if isinstance(node, ast.Call):
        return (
            isinstance(node.func, ast.Name)
            and node.func.id in ("globals", "vars", "locals")
            and not node.args
        )
    return isinstance(node, ast.Attribute) and node.attr == "modules"
