"""Texts that an expression of literals and constants stands for, those of other modules included."""

from __future__ import annotations

import ast
from typing import Any

from sglang_platform.core.installed.address import Address
from sglang_platform.devtools.source.answers import Definition
from sglang_platform.devtools.source.lookup import Lookup
from sglang_platform.devtools.source.module import Module
from sglang_platform.devtools.source.values import Unreadable, dotted, evaluate

__all__ = ["constant_text"]


def constant_text(lookup: Lookup, module: Module, node: ast.expr | None) -> str | None:
    """The string value of an expression of literals and constants, those of other modules included."""

    def constant(path: tuple[str, ...] | None) -> Any:
        found = lookup.find(Address(module.name, path)) if path is not None else None
        home = lookup.module_of(found) if isinstance(found, Definition) else None
        if isinstance(found, Definition) and home is not None and isinstance(found.node, ast.expr):
            text = constant_text(lookup, home, found.node)
            if text is not None and found.node is not node:
                return text
        raise Unreadable

    try:
        value = evaluate(node, lambda name: constant((name,)), lambda one: constant(dotted(one)))
    except (Unreadable, RecursionError):
        return None
    return value if isinstance(value, str) else None
