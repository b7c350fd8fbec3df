"""The fused ops of SGLang: the subclasses of its op class, read from its source without importing it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from sglang_platform.core.errors import ConfigurationError
from sglang_platform.core.installed.address import Address
from sglang_platform.devtools.source.opening import open_host
from sglang_platform.devtools.source.tree import SourceTree
from sglang_platform.devtools.upgrade.release import Release

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
    release = Release(tree)
    base = release.class_at(Address(module, (root,)))
    if base is None:
        raise ConfigurationError(
            f"{tree.label} has no class {op_class}, from which its fused ops derive",
            why=tree.unreadable(module) or "its sources do not define it",
            fix="give a whole wheel or checkout of a supported SGLang",
        )
    found = {}
    for where, name in _candidates(tree, root):
        one = release.class_at(Address(where, (name,)))
        line = list(one.line()) if one is not None else []
        if base in line[1:] and name != "MultiPlatformOp":
            below = (each.own.get("forward") for each in line[: line.index(base)])
            found[name] = OpClass(name, where, any(each and each.function for each in below))
    return found


def _candidates(tree: SourceTree, root: str) -> Iterator[tuple[str, str]]:
    """The module and name of each class that may derive from the op class, by the names of its bases in the text."""
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
    return ((module, name) for module, name, bases in written if bases & names)
