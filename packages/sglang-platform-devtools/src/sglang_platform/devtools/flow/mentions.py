"""The attributes that a plugin sets, and the names that it mentions, anywhere in its sources."""

from __future__ import annotations

import ast

from sglang_platform.devtools.source.tree import SourceTree

__all__ = ["mentioned", "reset", "written"]


def mentioned(tree: SourceTree) -> set[str]:
    """The names and attributes that some code of the plugin reads."""
    return {
        str(getattr(one, "id", getattr(one, "attr", "")))
        for module in map(tree.module, tree.served())
        for one in (module.nodes if module is not None else ())
        if isinstance(one, ast.Name | ast.Attribute) and isinstance(one.ctx, ast.Load)
    }


def reset(tree: SourceTree) -> set[str]:
    """The attributes that are set elsewhere than on `self` in `__init__`."""
    found: set[str] = set()
    for name in tree.served():
        module = tree.module(name)
        nodes = module.nodes if module is not None else []
        initial = {
            id(part)
            for one in nodes
            if isinstance(one, ast.FunctionDef) and one.name == "__init__"
            for part in ast.walk(one)
        }
        found |= {
            one.attr
            for one in nodes
            if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store) and id(one) not in initial
        }
    return found


def written(tree: SourceTree) -> set[str]:
    """The attributes that the plugin sets on anything, which the host may have only then."""
    found: set[str] = set()
    for name in tree.served():
        module = tree.module(name)
        for node in module.nodes if module is not None else ():
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
            elif (
                isinstance(node, ast.Call)
                and getattr(node.func, "id", "") == "setattr"
                and len(node.args) > 1
            ):
                key = node.args[1]
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    found.add(key.value)
    return found
