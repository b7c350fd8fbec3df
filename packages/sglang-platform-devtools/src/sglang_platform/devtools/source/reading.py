"""What the source of a module or a class binds."""

from __future__ import annotations

import ast

from sglang_platform.devtools.source.scope import Binding, ClassScope, Scope
from sglang_platform.devtools.source.statements import read_body
from sglang_platform.devtools.source.values import dotted

__all__ = ["read_class", "read_module"]

_HARMLESS_DECORATORS = {"final", "runtime_checkable", "total_ordering"}
_HARMLESS_METACLASSES = {"ABCMeta", "type"}


def read_module(tree: ast.Module, package: str) -> Scope:
    """What a module binds. `package` is what its relative imports start from."""
    scope = Scope(package)
    read_body(tree.body, scope)
    return scope


def read_class(node: ast.ClassDef, package: str) -> ClassScope:
    """What a class binds in its own body."""
    scope = ClassScope(node, package)
    read_body(node.body, scope)
    for slots in scope.nodes("__slots__"):
        for one in ast.walk(slots):
            if isinstance(one, ast.Constant) and isinstance(one.value, str):
                scope.names.setdefault(one.value, [Binding()])
    called = [one.func if isinstance(one, ast.Call) else one for one in node.decorator_list]
    odd = {(dotted(one) or ("?",))[-1] for one in called} - _HARMLESS_DECORATORS
    words = {word.arg: (dotted(word.value) or ("?",))[-1] for word in node.keywords}
    odd_metaclass = words.get("metaclass", "type") not in _HARMLESS_METACLASSES
    with_slots = any(
        word.arg == "slots"
        for one in node.decorator_list
        if isinstance(one, ast.Call)
        for word in one.keywords
    )
    scope.only_adds_dunders = (
        not scope.is_open and odd == {"dataclass"} and not with_slots and not odd_metaclass
    )
    scope.is_open |= bool(odd) or odd_metaclass
    return scope
