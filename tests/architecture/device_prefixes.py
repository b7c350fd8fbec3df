"""Tests of a device string by a part of it, read from the sources.

`"cpu"` is the beginning of `"cpux:0"` and a part of `"my_cpu"`: code compares `torch.device(...).type`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

__all__ = ["device_prefixes", "native_device_prefixes"]

_DEVICE = re.compile(r"device|dev\b|\blocation\b", re.IGNORECASE)
_TYPES = re.compile(r"\^?(cpu|cuda|xpu|npu|hpu|mps|meta|hip|privateuse\w*|example_oot)([:(\\$|\[].*)?")
_METHODS = {"startswith", "endswith", "find", "rfind", "index", "count", "removeprefix"}
_PATTERNS = {"match", "search", "fullmatch"}
_NATIVE = re.compile(
    r'(?:\.(?:find|rfind|compare|starts_with|substr)|strn?cmp)\s*\([^;]*"'
    r"(cpu|cuda|xpu|npu|hpu|mps|meta|privateuse\w*|example_oot)"
)


def device_prefixes(text: str) -> Iterator[tuple[int, str]]:
    """(line, expression) of each test of a device string by a prefix, a substring, a pattern or a slice."""
    for node in ast.walk(ast.parse(text)):
        if _is_partial(node):
            yield node.lineno, ast.unparse(node)  # type: ignore[attr-defined]


def native_device_prefixes(text: str) -> Iterator[tuple[int, str]]:
    """The same in C++."""
    for number, line in enumerate(text.splitlines(), 1):
        if _NATIVE.search(line):
            yield number, line.strip()


def _is_partial(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=text, attr=name), args=[part, *_]) if name in _METHODS:
            return _names_a_type(part) and not isinstance(text, ast.List | ast.Tuple)
        case ast.Call(func=ast.Attribute(attr=name), args=[pattern, text, *_]) if name in _PATTERNS:
            return _names_a_type(pattern) and _is_device(text)
        case ast.Compare(left=part, ops=[ast.In() | ast.NotIn()], comparators=[text]):
            return _names_a_type(part) and _is_text_of_device(text)
        case ast.Compare(left=ast.Subscript(value=text, slice=ast.Slice()), comparators=[part]):
            return _names_a_type(part) and _is_device(text)
    return False


def _names_a_type(node: ast.expr) -> bool:
    if isinstance(node, ast.Tuple):
        return any(map(_names_a_type, node.elts))
    return (
        isinstance(node, ast.Constant) and isinstance(node.value, str) and bool(_TYPES.fullmatch(node.value))
    )


def _is_device(node: ast.expr) -> bool:
    return _DEVICE.search(ast.unparse(node)) is not None


def _is_text_of_device(node: ast.expr) -> bool:
    """`str(...)` or a name of one device; the plural is a collection, and `in` looks for a whole entry there."""
    match node:
        case ast.Call(func=ast.Name("str"), args=[inner]):
            return _is_device(inner)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return re.search(r"device(_type|_name|_string)?$", name) is not None
    return False
