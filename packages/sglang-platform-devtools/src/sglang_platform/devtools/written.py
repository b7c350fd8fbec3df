"""The source location of a function or class of this process."""

from __future__ import annotations

import ast
import functools
import inspect
from typing import Any

from sglang_platform.core.correction import is_plugins
from sglang_platform.core.installed.files import file_bytes
from sglang_platform.core.installed.modules import find_module
from sglang_platform.devtools.source.module import parse
from sglang_platform.devtools.source.signatures import is_documentation, only_refuses

__all__ = ["does_nothing", "is_unwritten", "place_of", "statement_of"]

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def statement_of(value: Any) -> _Function | None:
    """The `def` of an entry of a class's namespace; None if it has no Python source."""
    code = _code(value)
    return _functions(code.co_filename).get(code.co_firstlineno) if code is not None else None


def place_of(klass: type, name: str = "") -> str | None:
    """``file:line`` of an attribute that a class defines, or of the class itself; None if no source file has it.

    A function that a plugin's class takes from core, SGLang or torch is placed where it is assigned.
    """
    value = vars(klass).get(name)
    code, node = _code(value), statement_of(value)
    borrowed = is_plugins(klass.__module__) and not is_plugins(
        str(getattr(_function(value), "__module__", ""))
    )
    if code is not None and node is not None and not borrowed:
        return f"{code.co_filename}:{node.lineno}"
    found = find_module(klass.__module__)
    path = found.origin if found is not None else None
    if path is None or not path.endswith(".py"):
        return None
    own = klass.__qualname__.rpartition(".")[2]
    for found_class in _nodes(path):
        if not isinstance(found_class, ast.ClassDef) or found_class.name != own:
            continue
        if not name:
            return f"{path}:{found_class.lineno}"
        for one in ast.walk(found_class):
            if isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Store):
                return f"{path}:{one.lineno}"
    return place_of(klass) if name else None


def is_unwritten(value: Any) -> bool:
    """True if a method only raises NotImplementedError, docstring aside."""
    return only_refuses(statement_of(value))


def does_nothing(node: _Function) -> bool:
    """True if the body is only a docstring, `pass`, or both."""
    return all(is_documentation(one) or isinstance(one, ast.Pass) for one in node.body)


def _code(value: Any) -> Any:
    return getattr(_function(value), "__code__", None)


def _function(value: Any) -> Any:
    """The function under a descriptor and its wrappers; None if they wrap each other."""
    function = getattr(value, "__func__", getattr(value, "fget", None) or value)
    try:
        return inspect.unwrap(function)
    except ValueError:
        return None


@functools.cache
def _nodes(path: str) -> list[ast.AST]:
    try:
        return list(ast.walk(parse(file_bytes(path))))
    except (SyntaxError, ValueError):
        return []


@functools.cache
def _functions(path: str) -> dict[int, _Function]:
    """The functions of a file by the line of the `def` and of the first decorator, where a code object starts."""
    found = {}
    for node in _nodes(path):
        if isinstance(node, _Function):
            found[node.lineno] = node
            found[min([node.lineno, *(one.lineno for one in node.decorator_list)])] = node
    return found
