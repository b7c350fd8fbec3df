"""Serving a class that uses older names, and serving older hosts from a class that does not.

At class creation an older override gets today's name as a counterpart on the same class, so the most derived
override wins whichever generation it is written in, and `super()` works across both.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from sglang_platform.core.contract.capabilities import PlatformCapabilities
from sglang_platform.core.contract.drift import OLDER_NAMES, OlderName, OlderSignature
from sglang_platform.core.contract.members import defines_contract
from sglang_platform.core.contract.source import place_of
from sglang_platform.core.contract.types import KVPoolKind, kv_pool_kind

__all__ = ["bridge_older_names", "bridge_older_signature", "bridged_names", "older_methods"]

_SERVES = "_serves_older_names"


def bridge_older_names(cls: type) -> None:
    """Gives the platform class `cls` today's names for the older ones that are in force in it."""
    served: dict[str, dict[str, Any]] = {}
    names: dict[str, set[str]] = {}
    for row in sorted(OLDER_NAMES, key=lambda row: _place_in_mro(cls, row.old)):
        owner = _owner_in_force(cls, row)
        if owner is None:
            continue
        served.setdefault(row.member, {}).setdefault(row.detail, vars(owner)[row.old])
        names.setdefault(row.member, set()).add(row.old)
        _warn(
            owner,
            row.old,
            f"{owner.__qualname__}.{row.old}() is an older name, last called by SGLang {row.until}. "
            f"It is served as {row.new}: write that.",
        )
    for member, answers in served.items():
        bridge: Any = _pools(cls, answers) if member == "get_kv_pool_cls" else _Capabilities(cls, answers)
        setattr(bridge, _SERVES, frozenset(names[member]))
        setattr(cls, member, bridge)


def _place_in_mro(cls: type, name: str) -> int:
    return next((i for i, klass in enumerate(cls.__mro__) if name in vars(klass)), len(cls.__mro__))


def _owner_in_force(cls: type, row: OlderName) -> type | None:
    """The class whose older override has to be bridged on `cls`; None where none is, or one serves it
    already."""
    for klass in cls.__mro__:
        namespace = vars(klass)
        if row.member in namespace and not defines_contract(klass):
            serves = getattr(namespace[row.member], _SERVES, None)
            if serves is None:
                _warn_if_unread(cls, klass, row)
                return None
            if row.old in serves:
                return None
        if row.old in namespace:
            return klass
    return None


def _warn_if_unread(cls: type, today: type, row: OlderName) -> None:
    """Today's name wins over an older one at or behind it in the resolution order; say so where nothing reads
    it."""
    behind = cls.__mro__[cls.__mro__.index(today) :]
    older = next((klass for klass in behind if row.old in vars(klass)), None)
    if older is None or any(row.old in getattr(vars(k).get(row.member), _SERVES, ()) for k in behind):
        return
    if any(today in base.__mro__ and older in base.__mro__ for base in cls.__bases__):
        return
    _warn(
        older,
        row.old,
        f"{older.__qualname__}.{row.old}() is an older name and is not read, because {today.__qualname__} "
        f"defines {row.member}: remove it, {row.new} answers for every host.",
    )


def _pools(cls: type, answers: dict[str, Any]) -> Callable[..., Any]:
    def get_kv_pool_cls(self: Any, *, kind: KVPoolKind) -> Any:
        wanted = kv_pool_kind(kind)
        if wanted in answers:
            return _bound(answers[wanted], self)()
        behind: Any = super(cls, self)
        return behind.get_kv_pool_cls(kind=wanted)

    get_kv_pool_cls.__qualname__ = f"{cls.__qualname__}.get_kv_pool_cls"
    get_kv_pool_cls.__module__ = cls.__module__
    return get_kv_pool_cls


class _Capabilities:
    """`capabilities` of a platform that still answers some of them by older methods.

    Not a data descriptor, so an instance may set `self.capabilities`.
    """

    def __init__(self, cls: type, answers: dict[str, Any]) -> None:
        self._cls = cls
        self._answers = answers

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        inherited: Any = super(self._cls, instance)
        values = {
            f.name: bool(getattr(inherited.capabilities, f.name, False)) for f in fields(PlatformCapabilities)
        }
        for field, older in self._answers.items():
            values[field] = bool(_bound(older, instance)())
        return PlatformCapabilities(**values)


def bridge_older_signature(cls: type, owner: type, row: OlderSignature) -> None:
    """Wraps the method of `owner` with older parameters so that `cls` takes today's."""
    older = vars(owner)[row.name]
    _warn(
        owner,
        row.name,
        f"{owner.__qualname__}.{row.name}({', '.join(('self', *row.older))}) has the parameters of SGLang "
        f"{row.until} and before. It is served as {row.today}: write that.",
    )

    def get_device(self: Any, device_id: int | None = 0) -> Any:
        return _bound(older, self)(device_id)

    def is_pin_memory_available(self: Any, device: Any = None) -> Any:
        return _bound(older, self)()

    bridge: Any = {"get_device": get_device, "is_pin_memory_available": is_pin_memory_available}[row.name]
    bridge.__qualname__ = f"{cls.__qualname__}.{row.name}"
    bridge.__module__ = cls.__module__
    bridge.__doc__ = getattr(older, "__doc__", None)
    setattr(bridge, _SERVES, frozenset({row.name}))
    setattr(cls, row.name, bridge)


def bridged_names(cls: type) -> tuple[str, ...]:
    """The older names and forms through which `cls` answers, for reports."""
    found = {
        name
        for klass in cls.__mro__
        for value in vars(klass).values()
        for name in getattr(value, _SERVES, ())
    }
    return tuple(sorted(found))


def older_methods(host_version: str) -> dict[str, Callable[[Any], Any]]:
    """Methods under the older names that a host of this version calls, answering from today's.

    For the host adapter, which puts them in the class it derives for such a host. A pool method may answer
    None, which hosts that old do not take: the adapter puts their own class in its place.
    """
    from packaging.version import Version

    version = Version(host_version).release
    return {
        row.old: _older_method(row)
        for row in OLDER_NAMES
        if Version(row.since).release <= version <= Version(row.until).release
    }


def _older_method(row: OlderName) -> Callable[[Any], Any]:
    def answer(self: Any) -> Any:
        if row.bridge == "kv_pool":
            return self.get_kv_pool_cls(kind=row.detail)
        return getattr(self.capabilities, row.detail)

    answer.__name__ = answer.__qualname__ = row.old
    answer.__doc__ = f"For hosts up to {row.until}: {row.new}."
    return answer


def _bound(value: Any, instance: Any) -> Callable[..., Any]:
    bind = getattr(type(value), "__get__", None)
    bound: Callable[..., Any] = value if bind is None else bind(value, instance, type(instance))
    return bound


def _warn(owner: type, name: str, message: str) -> None:
    """One DeprecationWarning at the line that defines `name`."""
    path, line = place_of(owner, name) or (owner.__module__, 1)
    warnings.warn_explicit(message, DeprecationWarning, path, line, module=owner.__module__)
