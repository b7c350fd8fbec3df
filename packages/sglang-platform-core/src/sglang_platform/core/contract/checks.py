"""The check of a vendor's class against the contract, made when the class is created.

Caught are: a public name that the contract does not know, an override that cannot take the calls the contract
allows, a method replaced by a value or a value by a method, a declared value that cannot be used, and an
override that is never reached because a class of the contract precedes it in the MRO. All of them are reported in one
ContractError. Private names are not checked; older names are bridged (`contract.bridges`).
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

from sglang_platform.core.contract.bridges import bridge_older_names, bridge_older_signature
from sglang_platform.core.contract.drift import older_name, older_names, older_signature
from sglang_platform.core.contract.drift_rows import ChangedSignature
from sglang_platform.core.contract.members import (
    Kind,
    Member,
    contract_classes,
    defines_contract,
    kind_of,
    members_for,
    other_contracts,
    public_names,
)
from sglang_platform.core.contract.signatures import (
    bound_signature,
    broken_calls,
    plain_parameters,
    without_annotations,
)
from sglang_platform.core.contract.source import place_of
from sglang_platform.core.contract.values import value_problem
from sglang_platform.core.correction import is_plugins
from sglang_platform.core.errors import ContractError
from sglang_platform.core.spelling import nearest

__all__ = ["check_class"]

_CALLED: tuple[Kind, ...] = ("method", "classmethod", "staticmethod")
_NOT_A_VENDORS = frozenset({*sys.stdlib_module_names, "sglang", "typing_extensions"})


def check_class(cls: type) -> None:
    """Raises ContractError if `cls` violates the contract; bridges methods written in an older form.

    Called by `DeviceMixin.__init_subclass__`. Classes of the contract itself and classes that a host adapter
    derives from checked ones (`_rebased_by_host` in their own body) are left alone.
    """
    if defines_contract(cls) or vars(cls).get("_rebased_by_host"):
        return
    members = members_for(cls)
    problems: list[str] = []
    older: list[tuple[type, ChangedSignature]] = []
    for klass in _unchecked(cls):
        for name, value in vars(klass).items():
            if name.startswith("_") and name not in members:
                continue
            found = _problem(cls, name, value, members, older, klass)
            problems.extend(f"{text} ({_place(klass, name)})" for text in found)
    problems.extend(_unreachable(cls, members))
    if problems:
        raise _contract_error(cls, problems)
    for klass, row in older:
        if next(k for k in cls.__mro__ if row.member in vars(k)) is klass:
            bridge_older_signature(cls, klass, row)
    bridge_older_names(cls)


def _unchecked(cls: type) -> list[type]:
    """`cls` and the plain mixin classes in its MRO that no checked base already has."""
    known = {klass for base in cls.__bases__ if contract_classes(base) for klass in base.__mro__}
    return [cls] + [
        klass
        for klass in cls.__mro__[1:]
        if klass not in known
        and not contract_classes(klass)
        and klass.__module__.partition(".")[0] not in _NOT_A_VENDORS
    ]


def _problem(
    cls: type,
    name: str,
    value: Any,
    members: dict[str, Member],
    older: list[tuple[type, ChangedSignature]],
    klass: type,
) -> list[str]:
    row = older_name(name)
    member = members.get(name)
    if member is None and row is not None and row.member in members:
        return _as_method(name, value, row.older_parameters(members[row.member].signature), klass)
    if member is None:
        return [] if name in _extra_names(cls) else [_unknown(cls, name, members)]
    if member.kind not in _CALLED:
        return _as_attribute(name, value)
    if member.kind == "classmethod" and kind_of(value) == "method":
        return [f"{name} is an instance method; the contract calls it on the class: make it a classmethod"]
    assert member.signature is not None
    found = _as_method(name, value, member.signature, klass)
    signature = bound_signature(value, klass) if found else None
    parameters = plain_parameters(signature) if signature is not None else None
    if parameters is not None:
        drifted = older_signature(name, parameters)
        if drifted is not None:
            older.append((klass, drifted))
            return []
    return found


def _as_method(name: str, value: Any, contract: inspect.Signature, klass: type) -> list[str]:
    kind = kind_of(value)
    if kind == "class":
        return [
            f"{name} is the class {value.__qualname__}; the contract calls {name}(): write a method for it"
        ]
    if kind == "property":
        return [f"{name} is a property; the contract calls {name}(): write a method"]
    if kind == "value":
        return [f"{name} is the value {value!r}; the contract calls {name}(): write a method"]
    function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return [f"{name} is async; the contract calls it without await: write a plain method"]
    if inspect.isgeneratorfunction(function):
        needs = (
            " with @contextlib.contextmanager" if name == "reindex_device_id" else " that returns its answer"
        )
        return [f"{name} is a generator; the contract wants a method{needs}"]
    signature = bound_signature(value, klass)
    if signature is None:
        return []
    wanted = f"the contract has {name}{without_annotations(contract)}"
    return [f"{name} {text}; {wanted}" for text in broken_calls(contract, signature)]


def _as_attribute(name: str, value: Any) -> list[str]:
    kind = kind_of(value)
    if kind in _CALLED:
        return [
            f"{name} is a method; the contract reads it as an attribute: assign it, or make it a property"
        ]
    if kind == "property":
        return []
    text = value_problem(name, value)
    return [] if text is None else [f"{name} {text}"]


def _extra_names(cls: type) -> set[str]:
    extra: set[str] = set()
    for klass in cls.__mro__:
        names = vars(klass).get("extra_public_names", ())
        if not isinstance(names, str):
            extra.update(name for name in names if isinstance(name, str))
    return extra


def _unknown(cls: type, name: str, members: dict[str, Member]) -> str:
    text = f"{name} is not a name of the contract"
    for other in other_contracts(cls):
        if name in public_names(other):
            return f"{text} here: it belongs to {other.__name__}, and nothing calls it on {cls.__name__}"
    usable = [n for n in members if not n.startswith("_")]
    older = {row.old: row.new for row in older_names() if row.member in members}
    meant = nearest(name, [*usable, *older])
    return text if meant is None else f"{text}, did you mean {older.get(meant, meant)}?"


def _unreachable(cls: type, members: dict[str, Member]) -> list[str]:
    """Problems for names of a vendor's base class that a contract class earlier in the MRO overrides."""
    problems = []
    for place, klass in enumerate(cls.__mro__):
        if place == 0 or defines_contract(klass) or klass.__module__.partition(".")[0] in _NOT_A_VENDORS:
            continue
        for name in vars(klass):
            if name not in members:
                continue
            first = next(k for k in cls.__mro__ if name in vars(k))
            if defines_contract(first):
                problems.append(
                    f"{klass.__name__}.{name} is never reached: {first.__name__} defines it too and stands "
                    f"before it; put {klass.__name__} first in the bases of {cls.__name__} "
                    f"({_place(klass, name)})"
                )
    return problems


def _place(klass: type, name: str) -> str:
    where = place_of(klass, name) or _class_statement()
    return f"{klass.__module__}.{klass.__qualname__}" if where is None else f"{where[0]}:{where[1]}"


def _class_statement() -> tuple[str, int] | None:
    """File and line of the class statement being executed: the innermost frame of a plugin's code."""
    frame = sys._getframe(1)
    while frame is not None:
        is_statement = frame.f_code.co_name != "__init_subclass__"
        if is_statement and is_plugins(str(frame.f_globals.get("__name__", ""))):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return None


def _contract_error(cls: type, problems: list[str]) -> ContractError:
    count = f"{len(problems)} places" if len(problems) > 1 else "one place"
    contracts = " and ".join(contract.__name__ for contract in contract_classes(cls)[:-1]) or "DeviceMixin"
    return ContractError(
        f"{cls.__module__}.{cls.__qualname__} breaks the platform contract ({contracts}) in {count}",
        why="\n".join(f"- {problem}" for problem in problems),
        fix="use the contract's names and parameters; names of your own start with an underscore or stand in "
        "extra_public_names",
    )
