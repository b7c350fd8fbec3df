"""The fused ops that SGLang has: the classes below its op class, told from its source without importing it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from sglang_platform.core.source.address import Address
from sglang_platform.core.source.answers import Definition
from sglang_platform.core.source.lookup import Lookup
from sglang_platform.core.source.opening import open_host
from sglang_platform.core.source.tree import SourceTree

__all__ = ["OpClass", "installed_ops", "op_classes"]

_CLASS = re.compile(rb"^class (\w+)\(([^)]*)\)", re.MULTILINE)
_WORD = re.compile(rb"\w+")


class OpClass(NamedTuple):
    """One op. `own_forward`: its class replaces `forward`, so that no registered forward is ever asked for."""

    name: str
    module: str
    own_forward: bool


def installed_ops(op_class: str) -> dict[str, OpClass]:
    """Those of the SGLang in this environment."""
    return op_classes(open_host("installed", {"sglang"}), op_class)


def op_classes(tree: SourceTree, op_class: str) -> dict[str, OpClass]:
    """Every class that derives from `op_class` (`pkg.mod:Class`), by name, tests and the class's old names left out."""
    module, _, root = op_class.partition(":")
    found: dict[Address, bool] = {Address(module, (root,)): False}
    lookup = Lookup(tree)
    open_ = list(_candidates(tree, root))
    while taken := [one for one in open_ if any(base in found for base in _bases(lookup, *one))]:
        open_ = [one for one in open_ if one not in taken]
        for where, node in taken:
            inherited = any(found.get(base, False) for base in _bases(lookup, where, node))
            own = any(isinstance(one, ast.FunctionDef) and one.name == "forward" for one in node.body)
            found[Address(where, (node.name,))] = own or inherited
    return {
        address.path[0]: OpClass(address.path[0], address.module, own)
        for address, own in found.items()
        if address.path[0] not in (root, "MultiPlatformOp")
    }


def _candidates(tree: SourceTree, root: str) -> Iterator[tuple[str, ast.ClassDef]]:
    """The classes whose bases have the name of one that may be an op, in whatever module: text first, since the host
    has thousands of classes."""
    written = [
        (module, name.decode(), {word.decode() for word in _WORD.findall(bases)})
        for module in tree.served()
        for name, bases in _CLASS.findall(tree.text(module))
    ]
    names = {root}
    while new := {name for _, name, bases in written if bases & names} - names:
        names |= new
    for where in {module for module, _, bases in written if bases & names}:
        module = tree.module(where)
        for node in module.tree.body if module is not None else ():
            if isinstance(node, ast.ClassDef) and node.bases:
                yield where, node


def _bases(lookup: Lookup, where: str, node: ast.ClassDef) -> Iterator[Address]:
    for base in node.bases:
        path = tuple(ast.unparse(base).split("."))
        answer = lookup.find(Address(where, path)) if all(map(str.isidentifier, path)) else None
        if isinstance(answer, Definition):
            yield answer.address
