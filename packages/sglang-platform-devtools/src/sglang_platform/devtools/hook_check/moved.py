"""Where a missing target may be found in the same host: the same qualified name in another module."""

from __future__ import annotations

import ast
from typing import NamedTuple

from sglang_platform.core.installed.address import Address
from sglang_platform.devtools.source.answers import Definition
from sglang_platform.devtools.source.lookup import Lookup
from sglang_platform.devtools.source.tree import SourceTree

__all__ = ["Whereabouts", "search"]

_MANY = 5
"""If more modules define a name, as `main` or `forward`, it is too common to identify a moved target."""


class Whereabouts(NamedTuple):
    """`homes`: addresses that may be the target, the likeliest first. `why`: an explanation if there are none."""

    homes: tuple[Address, ...] = ()
    why: str = ""
    nearest: tuple[str, ...] = ()


def search(
    host: SourceTree, lookup: Lookup, lost: Address, holder: Address | None, earlier: Lookup | None
) -> Whereabouts:
    """Look for a target that its module lacks.

    `holder`: the class that still exists and lacks the attribute; it did not move, so classes of its name in other
    modules are unrelated. `earlier`: the release that still had the target; a module that already defined the name
    there is unrelated.
    """
    if holder is not None:
        return Whereabouts(nearest=_elsewhere(host, lost))
    first = lost.path[0]
    homes: list[Address] = []
    classes: list[Address] = []
    for module in _modules_with(host, first):
        candidate = Address(module, lost.path)
        if module == lost.module or (earlier is not None and _defines(earlier, candidate)):
            continue
        if _defines(lookup, candidate):
            homes.append(candidate)
        elif len(lost.path) > 1 and _defines(lookup, Address(module, (first,))):
            classes.append(Address(module, (first,)))
    homes.sort(key=lambda home: _distance(lost, home))
    if len(homes) > _MANY:  # too many: keep modules whose last part is unchanged
        kept = [home for home in homes if _last(home) == _last(lost)]
        if not 0 < len(kept) <= _MANY:
            name = ".".join(lost.path)
            return Whereabouts(why=f"{len(homes)} other modules define {name}, none of them likelier")
        homes = kept
    if homes:
        return Whereabouts(tuple(homes))
    if 0 < len(classes) <= _MANY:
        places = ", ".join(f"{one} is there" for one in classes)
        return Whereabouts(why=f"{places}, without {lost.path[1]!r}", nearest=_elsewhere(host, lost))
    return Whereabouts(nearest=_elsewhere(host, lost))


def _modules_with(host: SourceTree, name: str) -> list[str]:
    """Modules with a top-level definition of the name, else those that assign it or define it in a branch."""
    found = host.defining(name)
    if found:
        return found
    spellings = (f"\n{name} =", f"\n{name}:", f" def {name}(", f" class {name}")
    return [
        module
        for module in host.containing(name.encode())
        if any(one.encode() in b"\n" + host.text(module) for one in spellings)
    ]


def _defines(lookup: Lookup, address: Address) -> bool:
    """True if defined in this module, or inherited by a class defined here."""
    if not lookup.modules.has(address.module):
        return False
    answer = lookup.find(address)
    if isinstance(answer, Definition):
        return bool(answer.nodes) and (answer.address.module == address.module or _writes(lookup, address))
    return False


def _writes(lookup: Lookup, address: Address) -> bool:
    module = lookup.modules.module(address.module)
    nodes = module.scope.nodes(address.path[0]) if module is not None else []
    return any(isinstance(node, ast.ClassDef) for node in nodes)


def _elsewhere(host: SourceTree, lost: Address) -> tuple[str, ...]:
    """Up to three functions or methods with the target's last name, as suggestions."""
    name = lost.path[-1]
    word = f"def {name}(".encode()
    found: list[Address] = []
    for module_name in host.containing(word):
        module = host.module(module_name) if len(found) <= _MANY else None
        if module is None:
            continue
        for first in module.scope.names:
            for node in module.scope.nodes(first):
                if first == name and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    found.append(Address(module_name, (first,)))
                elif isinstance(node, ast.ClassDef) and any(
                    isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name == name
                    for one in node.body
                ):
                    found.append(Address(module_name, (first, name)))
    found.sort(key=lambda one: _distance(lost, one))
    return tuple(str(one) for one in found[:3]) if len(found) <= _MANY else ()


def _distance(lost: Address, home: Address) -> tuple[bool, int, int, str]:
    """Sort key: modules of the old last name first, then the fewest steps between the two in the package tree."""
    old, new = lost.module.split("."), home.module.split(".")
    common = 0
    while common < min(len(old), len(new)) and old[common] == new[common]:
        common += 1
    return _last(lost) != _last(home), len(old) + len(new) - 2 * common, len(new), home.module


def _last(address: Address) -> str:
    return address.module.rpartition(".")[2]
