"""Re-basing: one vendor class, the host's base class under it.

A vendor writes ``class MyPool(MyStore, MHATokenToKVPool)`` against core. The host wants a subclass of its own class of
that kind. The re-based class has this method resolution order::

    MyPool (re-based) -> Outer -> MyPool -> MyStore -> Bridge -> core's MHATokenToKVPool -> the host's MHATokenToKVPool

Vendor code keeps its place and its `super()` calls, and the object stays an instance of the vendor's class. `Outer`
completes or translates what the vendor answers; `Bridge` decides, name by name, whether core's or the host's
implementation serves what the vendor left alone.
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

    `bridge` goes before `core_base` and behind the vendor; `outer` is a class of plain methods that goes before the
    vendor and reaches it with `super()`. A class that is a subclass of `host_base` already is returned as it is, and
    asking twice gives one answer.
    """
    if issubclass(cls, host_base):
        return cls
    key = (cls, host_base)
    found = _cache.get(key)
    if found is None:
        mark = {REBASED_MARK: True, "__module__": __name__}
        bridged = _subclass(f"{core_base.__name__}Bridge", (core_base, host_base), bridge, mark)
        # A vendor may name core's own class, which cannot stand before its own subclass.
        bases: tuple[type, ...] = (bridged,) if cls is core_base else (cls, bridged)
        if outer is not None:
            bases = (outer, *bases)
        identity = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
        found = _cache[key] = _subclass(cls.__name__, bases, identity, {REBASED_MARK: True}, metaclass)
    return found


def is_rebased(instance: object) -> bool:
    """Whether the class of `instance` was made here."""
    return bool(getattr(type(instance), REBASED_MARK, False))


def host_first(core_base: type, host_base: type) -> dict[str, Any]:
    """A bridge under which the host's implementation serves every name that core's base class shares with it."""
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
    # type() works out the most derived metaclass (the host's pools are ABCs) unless one is given.
    keywords = {"metaclass": metaclass} if metaclass is not None else {}
    return types.new_class(name, bases, keywords, lambda ns: ns.update({**(namespace or {}), **mark}))
