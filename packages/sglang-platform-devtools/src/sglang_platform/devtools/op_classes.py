"""The fused ops of SGLang: the subclasses of its op class, read from its source without importing it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sglang_platform.core.errors import ConfigurationError
from sglang_platform.core.installed.address import Address
from sglang_platform.devtools.source.answers import Definition
from sglang_platform.devtools.source.lookup import Lookup
from sglang_platform.devtools.source.opening import open_host
from sglang_platform.devtools.source.tree import SourceTree

__all__ = ["OpClass", "installed_ops", "op_classes"]

_CLASS = re.compile(rb"^class (\w+)\(([^)]*)\)", re.MULTILINE)
_WORD = re.compile(rb"\w+")


class OpClass(NamedTuple):
    """One op. `own_forward`: its class overrides `forward`, so that registered forwards are never used."""

    name: str
    module: str
    own_forward: bool


def installed_ops(op_class: str) -> dict[str, OpClass]:
    """The ops of the SGLang in this environment."""
    return op_classes(open_host("installed", {"sglang"}), op_class)


def op_classes(tree: SourceTree, op_class: str) -> dict[str, OpClass]:
    """Every class that derives from `op_class` (`pkg.mod:Class`), by name; tests and old names of it are left out.

    Raises ConfigurationError if the class itself is missing. `tree.not_read()` lists the files that could not be read.
    """
    module, _, root = op_class.partition(":")
    lookup, root_address = Lookup(tree), Address(module, (root,))
    if not isinstance(lookup.find(root_address), Definition):
        raise ConfigurationError(
            f"{tree.label} has no class {op_class}, from which its fused ops derive",
            why=tree.unreadable(module) or "its sources do not define it",
            fix="give a whole wheel or checkout of a supported SGLang",
        )
    below: dict[Address, list[Address]] = {}
    own = []
    for where, node in _candidates(tree, root):
        address = Address(where, (node.name,))
        if any(isinstance(one, ast.FunctionDef) and one.name == "forward" for one in node.body):
            own.append(address)
        for base in _bases(lookup, where, node):
            below.setdefault(base, []).append(address)
    found = _reached([root_address], below)
    without_choice = _reached([one for one in own if one in found and one != root_address], below)
    return {
        address.path[0]: OpClass(address.path[0], address.module, address in without_choice)
        for address in found
        if address.path[0] not in (root, "MultiPlatformOp")
    }


def _reached(begin: Iterable[Address], below: dict[Address, list[Address]]) -> dict[Address, None]:
    """The classes in `begin` and all their subclasses."""
    found = dict.fromkeys(begin)
    open_ = list(found)
    while open_:
        for one in below.get(open_.pop(), ()):
            if one not in found:
                found[one] = None
                open_.append(one)
    return found


def _candidates(tree: SourceTree, root: str) -> Iterator[tuple[str, ast.ClassDef]]:
    """Classes that may derive from the op class, by the names of their bases. The text is searched first, since the
    host has thousands of classes."""
    written = [
        (module, name.decode(), {word.decode() for word in _WORD.findall(bases)})
        for module in tree.served()
        for name, bases in _CLASS.findall(tree.text(module))
    ]
    below: dict[str, list[str]] = {}
    for _, name, bases in written:
        for base in bases:
            below.setdefault(base, []).append(name)
    names, open_ = {root}, [root]
    while open_:
        new = set(below.get(open_.pop(), ())) - names
        names |= new
        open_ += new
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
