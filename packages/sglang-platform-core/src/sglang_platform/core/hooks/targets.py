"""Parses target names, finds the module in a name, and locates targets in loaded modules. Imports no module."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, NamedTuple

from sglang_platform.core.errors import HookTargetError
from sglang_platform.core.installed.address import Address, nearest
from sglang_platform.core.installed.modules import Found, find_module, submodules
from sglang_platform.core.spelling import shown

__all__ = [
    "MissingModule",
    "MissingName",
    "Place",
    "Target",
    "attribute",
    "locate",
    "own_names",
    "parse",
    "resolve",
]


class Target(NamedTuple):
    """A parsed target. `key` is the same for both spellings; `module` is None if the name has no colon."""

    key: str
    module: str | None
    path: tuple[str, ...]


class MissingModule(NamedTuple):
    """No module was found for a target: the cause, and the nearest names that exist."""

    why: str
    nearest: tuple[str, ...]


class Place(NamedTuple):
    """The location of a target: ``owner.name``.

    `raw` is the attribute as stored in a ``__dict__``: the owner's, or a parent's if `inherited`.
    """

    owner: Any
    name: str
    raw: Any
    inherited: bool


class MissingName(NamedTuple):
    """The loaded module does not have the target."""

    why: str
    nearest: tuple[str, ...]


def parse(spelling: str) -> Target:
    """Read ``pkg.mod:Class.attr`` or ``pkg.mod.Class.attr``. Raises HookTargetError for anything else."""
    text = spelling if isinstance(spelling, str) else ""
    module, colon, qualname = text.partition(":")
    key = text.replace(":", ".", 1)
    parts = key.split(".")
    if len(parts) < 2 or not all(map(str.isidentifier, parts)) or (colon and not (module and qualname)):
        raise HookTargetError(
            f"{shown(spelling)} is not a hook target",
            fix="name a module and an attribute: 'pkg.mod:function', 'pkg.mod:Class.method' or the dotted form",
        )
    return Target(key, module if colon else None, tuple((qualname if colon else key).split(".")))


def resolve(target: Target) -> Address | MissingModule:
    """Split a target into module and attribute path. The module is the longest prefix that can be imported;
    at least one part remains for the attribute."""
    parts = target.key.split(".")
    first = len(target.module.split(".")) if target.module else 1
    name, found = _longest_loaded(parts)
    for count in range(name.count(".") + 2 if name else 1, len(parts)):
        if found is not None and found.search_path is None and count > first:
            break
        candidate = ".".join(parts[:count])
        step = find_module(candidate, found)
        if step is None:
            if count > first:
                break
            return _missing_module(parts[count - 1], name, found)
        name, found = candidate, step
    return Address(name, tuple(parts[len(name.split(".")) :]))


def _longest_loaded(parts: list[str]) -> tuple[str, Found | None]:
    for count in range(len(parts) - 1, 0, -1):
        name = ".".join(parts[:count])
        if sys.modules.get(name) is not None:
            return name, find_module(name)
    return "", None


def _missing_module(part: str, package: str, found: Found | None) -> MissingModule:
    where = f"the package {package!r} has" if package else "there is"
    prefix = f"{package}." if package else ""
    return MissingModule(
        f"{where} no module {part!r}", tuple(prefix + name for name in nearest(part, submodules(found)))
    )


def locate(module: ModuleType, path: tuple[str, ...]) -> Place | MissingName:
    """Find a target in a loaded module. Never calls a module's `__getattr__`, which could import."""
    owner: Any = module
    for position, name in enumerate(path):
        place = attribute(owner, name)
        if place is None:
            return _missing_name(module, path[:position], owner, name)
        if position < len(path) - 1:
            owner = place.raw if isinstance(place.raw, type) else getattr(owner, name)
    return place  # type: ignore[return-value]


def _missing_name(module: ModuleType, found: tuple[str, ...], owner: Any, name: str) -> MissingName:
    """The result if `owner`, at the path `found`, has no attribute `name`."""
    names = dir(owner) if isinstance(owner, type) else list(own_names(owner))
    if owner is module:
        names += submodules(find_module(module.__name__))
    where = f"{module.__name__}:{'.'.join(found)}".rstrip(":")
    glue = "." if found else ":"
    why = f"{where} has no {name!r}"
    if owner is module and "__getattr__" in own_names(module):
        why = f"{why} before its __getattr__ makes one; hook it in the module that defines it"
    return MissingName(why, tuple(where + glue + one for one in nearest(name, names)))


def own_names(owner: Any) -> dict[str, Any]:
    """The object's `__dict__`, read without running its code; empty if it has none."""
    try:
        found = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        return {}
    return found if isinstance(found, dict) else {}


def attribute(owner: Any, name: str) -> Place | None:
    """The place of ``owner.name``; None if it does not exist. An instance inherits the attributes of its class."""
    if isinstance(owner, type):
        for klass in owner.__mro__:
            if name in vars(klass):
                return Place(owner, name, vars(klass)[name], klass is not owner)
        return None
    if name in own_names(owner):
        return Place(owner, name, own_names(owner)[name], False)
    if isinstance(owner, ModuleType) or not hasattr(owner, name):
        return None
    return Place(owner, name, getattr(owner, name), True)
