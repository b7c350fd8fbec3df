"""What the contract defines: each public name with its kind, its signature and the class that owns it.

A contract class sets `_defines_contract = True` in its body and is registered when it is defined. So this module does
not import the runtimes' classes.
"""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass
from typing import Any, Literal

from sglang_platform.core.contract.signatures import bound_signature

__all__ = [
    "Kind",
    "Member",
    "contract_classes",
    "contract_members",
    "defines_contract",
    "kind_of",
    "members_for",
    "other_contracts",
    "public_names",
    "register_contract",
]

Kind = Literal["method", "classmethod", "staticmethod", "property", "class", "value"]


@dataclass(frozen=True)
class Member:
    """One name of the contract."""

    name: str
    owner: type
    kind: Kind
    signature: inspect.Signature | None


def kind_of(value: Any) -> Kind:
    """The kind of a raw entry of a class namespace."""
    if isinstance(value, classmethod):
        return "classmethod"
    if isinstance(value, staticmethod):
        return "staticmethod"
    if isinstance(value, property | functools.cached_property):
        return "property"
    if isinstance(value, type):
        return "class"
    # partialmethod and singledispatchmethod bind to a method and cannot be called themselves.
    if callable(value) or isinstance(value, functools.partialmethod | functools.singledispatchmethod):
        return "method"
    return "property" if hasattr(type(value), "__get__") else "value"


def defines_contract(klass: type) -> bool:
    """Whether `klass` is one of the classes of the contract itself."""
    return bool(vars(klass).get("_defines_contract"))


_registered: list[type] = []


def register_contract(contract: type) -> type:
    """Register a class of the contract; usable as a decorator."""
    _registered.append(contract)
    return contract


def contract_classes(cls: type) -> tuple[type, ...]:
    """The classes of the contract that `cls` inherits, in its resolution order."""
    return tuple(klass for klass in cls.__mro__ if defines_contract(klass))


@functools.cache
def _own_members(contract: type) -> dict[str, Member]:
    found = {}
    for name, value in vars(contract).items():
        if name.startswith("_") and name != "_enum":
            continue
        kind = kind_of(value)
        signature = (
            bound_signature(value, contract) if kind in ("method", "classmethod", "staticmethod") else None
        )
        found[name] = Member(name, contract, kind, signature)
    return found


def members_for(cls: type) -> dict[str, Member]:
    """The names that classes like `cls` may define, `_enum` included.

    A platform class answers for the contract classes it inherits. A class that is a device mixin only may be
    shared by both runtimes, so it may define the names of either.
    """
    classes = contract_classes(cls)
    if len(classes) == 1:
        classes += other_contracts(cls)
    return _members_of(classes)


def contract_members(cls: type) -> dict[str, Member]:
    """The names of the contract classes that `cls` inherits."""
    return _members_of(contract_classes(cls))


def _members_of(contracts: tuple[type, ...]) -> dict[str, Member]:
    members: dict[str, Member] = {}
    for contract in contracts:
        members = {**_own_members(contract), **members}
    return members


def other_contracts(cls: type) -> tuple[type, ...]:
    """The runtimes' platform classes that `cls` does not inherit."""
    return tuple(contract for contract in _registered if contract not in cls.__mro__)


def public_names(cls: type) -> frozenset[str]:
    """The public names of the contract that `cls` inherits: its vocabulary, not what a vendor adds."""
    return frozenset(
        name
        for contract in contract_classes(cls)
        for name in _own_members(contract)
        if not name.startswith("_")
    )
