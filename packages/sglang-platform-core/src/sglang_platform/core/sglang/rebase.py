"""Re-basing: put SGLang's base class under a vendor's class.

A vendor writes ``class MyPool(MyStore, MHATokenToKVPool)`` against core. SGLang requires a subclass of its own pool
class. The re-based class has this method resolution order::

    MyPool (re-based) -> Outer -> MyPool -> MyStore -> Bridge -> core's MHATokenToKVPool -> the host's MHATokenToKVPool

The vendor's `super()` calls keep working, and the object stays an instance of the vendor's class. `Outer` completes or
translates the vendor's return values. For each name that the vendor did not override, `Bridge` decides whether core's
or SGLang's implementation is used.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any

__all__ = ["REBASED_MARK", "host_first", "is_rebased", "rebase"]

REBASED_MARK = "_rebased_by_host"

_cache: dict[tuple[type, type], type] = {}


def rebase(
    cls: type,
    core_base: type,
    host_base: type,
    *,
    bridge: Mapping[str, Any] | None = None,
    outer: type | None = None,
    metaclass: type | None = None,
) -> type:
    """`cls` with `host_base` under it.

    `bridge` comes after the vendor's classes and before `core_base` in the MRO. `outer` is a class of plain methods
    that comes before the vendor's and calls it with `super()`. A subclass of `host_base` is returned unchanged.
    Results are cached.
    """
    if issubclass(cls, host_base):
        return cls
    key = (cls, host_base)
    found = _cache.get(key)
    if found is None:
        mark = {REBASED_MARK: True, "__module__": __name__}
        bridged = _subclass(f"{core_base.__name__}Bridge", (core_base, host_base), bridge, mark)
        # `cls` may be core's class itself, which cannot precede its subclass in the MRO.
        bases: tuple[type, ...] = (bridged,) if cls is core_base else (cls, bridged)
        if outer is not None:
            bases = (outer, *bases)
        identity = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
        found = _cache[key] = _subclass(cls.__name__, bases, identity, {REBASED_MARK: True}, metaclass)
    return found


def is_rebased(instance: object) -> bool:
    """Whether the class of `instance` was made by `rebase`."""
    return bool(getattr(type(instance), REBASED_MARK, False))


def host_first(core_base: type, host_base: type) -> dict[str, Any]:
    """A bridge that prefers SGLang's implementation for every name that both base classes define."""
    bridge: dict[str, Any] = {}
    for name in {n for klass in core_base.__mro__[:-1] for n in vars(klass)}:
        if name.startswith("__") and name != "__init__":
            continue
        for klass in host_base.__mro__[:-1]:
            if name in vars(klass):
                bridge[name] = vars(klass)[name]
                break
    return bridge


def _subclass(
    name: str,
    bases: tuple[type, ...],
    namespace: Mapping[str, Any] | None,
    mark: Mapping[str, Any],
    metaclass: type | None = None,
) -> type:
    # new_class() finds the most derived metaclass (SGLang's pools are ABCs) unless one is given.
    keywords = {"metaclass": metaclass} if metaclass is not None else {}
    return types.new_class(name, bases, keywords, lambda ns: ns.update({**(namespace or {}), **mark}))
