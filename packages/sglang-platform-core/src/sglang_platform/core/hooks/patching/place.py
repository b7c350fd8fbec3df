"""Where a target stands in a loaded module."""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

from sglang_platform.core.installed.address import nearest
from sglang_platform.core.installed.modules import find_module, submodules

__all__ = ["Deferred", "MissingName", "Place", "attribute", "locate", "own_names"]


class Place(NamedTuple):
    """Where a target stands: ``owner.name``.

    `raw` is the attribute as a ``__dict__`` has it: the owner's own, or a parent's where it is `inherited`.
    """

    owner: Any
    name: str
    raw: Any
    inherited: bool


class MissingName(NamedTuple):
    """The loaded module does not have the target."""

    why: str
    nearest: tuple[str, ...]


class Deferred(NamedTuple):
    """The module makes the name on first use, in its `__getattr__`."""

    name: str


def locate(module: ModuleType, path: tuple[str, ...]) -> Place | MissingName | Deferred:
    """Find a target in a loaded module. Runs no `__getattr__` of a module, which could import."""
    owner: Any = module
    for position, name in enumerate(path):
        place = attribute(owner, name)
        if place is None and owner is module and "__getattr__" in own_names(module):
            return Deferred(name)
        if place is None:
            return _missing(module, path[:position], owner, name)
        if position < len(path) - 1:
            owner = place.raw if isinstance(place.raw, type) else getattr(owner, name)
    return place  # type: ignore[return-value]


def _missing(module: ModuleType, found: tuple[str, ...], owner: Any, name: str) -> MissingName:
    """`owner`, to which the path `found` leads, has no `name`."""
    names = dir(owner) if isinstance(owner, type) else list(own_names(owner))
    if owner is module:
        names += submodules(find_module(module.__name__))
    where = f"{module.__name__}:{'.'.join(found)}".rstrip(":")
    glue = "." if found else ":"
    return MissingName(f"{where} has no {name!r}", tuple(where + glue + one for one in nearest(name, names)))


def own_names(owner: Any) -> dict[str, Any]:
    """An object's own attributes; runs none of its code."""
    try:
        found = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        return {}
    return found if isinstance(found, dict) else {}


def attribute(owner: Any, name: str) -> Place | None:
    """The place of ``owner.name``; None where there is none. An object inherits what its class has."""
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
