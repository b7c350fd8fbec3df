"""Adapts classes written for older forms of the interface, and current classes to older hosts.

At class creation, each method written in an older form gets a counterpart in the current form on the same class. So the
most derived override wins, whichever form it uses. The older forms and the conversions are data: `contract.drift`.
"""

from __future__ import annotations

import inspect
import logging
import sys
import warnings
from collections.abc import Callable
from dataclasses import fields
from typing import Any, NamedTuple

from sglang_platform.core.contract.capabilities import PlatformCapabilities
from sglang_platform.core.contract.drift import DriftRow, older_names, rows_in_force
from sglang_platform.core.contract.drift_rows import BecameField, ChangedSignature
from sglang_platform.core.contract.members import Member, contract_members, defines_contract, members_for
from sglang_platform.core.contract.source import place_of

__all__ = ["bridge_older_names", "bridge_older_signature", "older_methods"]

_logger = logging.getLogger(__name__)

_SERVES = "_serves_older_names"


class _Older(NamedTuple):
    """A method in an older form: the raw entry of its class's namespace."""

    row: DriftRow
    method: Any


def bridge_older_names(cls: type) -> None:
    """Add a bridge under the current name to `cls` for each older name that is in effect on it."""
    members = contract_members(cls)
    found: dict[str, list[_Older]] = {}
    # Of two older names for one member, the more derived wins; on one class, the first in the table.
    for row in sorted(older_names(), key=lambda row: _place_in_mro(cls, row.old)):
        owner = _owner_in_force(cls, row) if row.member in members else None
        if owner is not None:
            older = found.setdefault(row.member, [])
            first = next((one.row.old for one in older if one.row.new == row.new), None)
            older.append(_Older(row, vars(owner)[row.old]))
            told = f", {row.when}. It is served as {row.new}: write that."
            if first is not None:
                told = f" and is not read, because {cls.__qualname__} has {first}(): write {row.new}."
            _warn(owner, row.old, f"{owner.__qualname__}.{row.old}() is an older name{told}")
    for member, older in found.items():
        _put(cls, members[member], older)


def bridge_older_signature(cls: type, owner: type, row: ChangedSignature) -> None:
    """Add a bridge with current parameters to `cls` for the method that `owner` defines with older ones."""
    _warn(
        owner,
        row.old,
        f"{owner.__qualname__}.{row.old}({', '.join(('self', *row.older))}) has the parameters of "
        f"{_parameters_of(row)}. It is served as {row.new}: write that.",
    )
    _put(cls, members_for(cls)[row.member], [_Older(row, vars(owner)[row.old])])


def _parameters_of(row: DriftRow) -> str:
    return f"SGLang {row.since} and later" if row.until is None else f"SGLang {row.until} and before"


def _put(cls: type, member: Member, older: list[_Older]) -> None:
    """Put a bridge on `cls` under today's name."""
    if isinstance(older[0].row, BecameField):
        bridge: Any = _Capabilities(cls, {one.row.field: one.method for one in older})  # type: ignore[attr-defined]
    else:
        bridge = _method(cls, member, older)
    setattr(bridge, _SERVES, frozenset(one.row.old for one in older))
    setattr(cls, member.name, bridge)


def _method(cls: type, member: Member, older: list[_Older]) -> Any:
    """A method with current parameters that calls the older methods, or super() for what they do not cover."""
    today = member.signature
    assert today is not None

    def bridge(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = today.bind(*args, **kwargs)
        for row, method in older:
            if row.answers(call):
                return row.ask_older(_bound(method, self), call)
        return getattr(super(cls, self), member.name)(*call.args, **call.kwargs)

    bridge.__name__, bridge.__module__ = member.name, cls.__module__
    bridge.__qualname__ = f"{cls.__qualname__}.{member.name}"
    bridge.__doc__ = getattr(older[0].method, "__doc__", None)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    bridge.__signature__ = today.replace(parameters=[own, *today.parameters.values()])  # type: ignore[attr-defined]
    return classmethod(bridge) if member.kind == "classmethod" else bridge


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


def _place_in_mro(cls: type, name: str) -> int:
    return next((i for i, klass in enumerate(cls.__mro__) if name in vars(klass)), len(cls.__mro__))


def _owner_in_force(cls: type, row: DriftRow) -> type | None:
    """The class whose older override must be bridged on `cls`; None if there is none or it is already bridged."""
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


def _warn_if_unread(cls: type, today: type, row: DriftRow) -> None:
    """Warn about an older name that is never called because the current name precedes it in the MRO."""
    behind = cls.__mro__[cls.__mro__.index(today) :]
    older = next((klass for klass in behind if row.old in vars(klass)), None)
    if older is None or any(row.old in getattr(vars(k).get(row.member), _SERVES, ()) for k in behind):
        return
    if any(today in base.__mro__ and older in base.__mro__ for base in cls.__bases__):
        return  # already warned when that base was created
    _warn(
        older,
        row.old,
        f"{older.__qualname__}.{row.old}() is an older name and is not read, because {today.__qualname__} "
        f"defines {row.member}: remove it, {row.new} answers for every host.",
    )


def older_methods(host_version: str) -> dict[str, Callable[..., Any]]:
    """Methods in the older forms that a host of this version calls, implemented by the current ones.

    For the host adapter, which puts them in the class it derives for such a host. A pool method may answer
    None, which hosts that old do not take: the adapter puts their own class in its place.
    """
    return {
        row.old: _for_older_host(row)
        for row in rows_in_force(host_version)
        if not isinstance(row, ChangedSignature) or row.host_needs_adapter
    }


def _for_older_host(row: DriftRow) -> Callable[..., Any]:
    def answer(self: Any, *args: Any, **kwargs: Any) -> Any:
        # If only the signature changed, the name is the same: call the next method in the MRO, not this one.
        today = getattr(_behind(self, answer) if row.old == row.member else self, row.member)
        return row.ask_today(today, *args, **kwargs)

    answer.__name__ = answer.__qualname__ = row.old
    answer.__doc__ = f"{row.when.capitalize()}: {row.new}."
    return answer


def _behind(instance: Any, method: Any) -> Any:
    """`super()` as seen from the class of `instance` that holds `method`."""
    owner = next(k for k in type(instance).__mro__ if vars(k).get(method.__name__) is method)
    return super(owner, instance)


def _bound(value: Any, instance: Any) -> Callable[..., Any]:
    bind = getattr(type(value), "__get__", None)
    owner = instance if isinstance(instance, type) else type(instance)
    bound: Callable[..., Any] = value if bind is None else bind(value, instance, owner)
    return bound


_logged: set[str] = set()


def _warn(owner: type, name: str, message: str) -> None:
    """One DeprecationWarning at the line that defines `name`, and once in the log, where an operator sees it."""
    path, line = place_of(owner, name) or (owner.__module__, 1)
    warnings.warn_explicit(message, DeprecationWarning, path, line, module=owner.__module__)
    # Classes that `doctor` rebuilds from source belong to unimported modules; `doctor` reports them itself.
    if owner.__module__ in sys.modules and message not in _logged:
        _logged.add(message)
        _logger.warning("%s (%s:%s)", message, path, line)
