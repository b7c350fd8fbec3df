"""Whether an override can be called in every way in which the contract's method can be called."""

from __future__ import annotations

import inspect
from typing import Any

__all__ = ["bound_signature", "broken_calls", "plain_parameters", "without_annotations"]

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def bound_signature(value: Any, owner: type) -> inspect.Signature | None:
    """The signature of a class attribute as its callers see it, without `self` or `cls`.

    `value` is the raw entry of the class's namespace. None where Python cannot tell (some C callables).
    """
    bind = getattr(type(value), "__get__", None)
    try:
        return inspect.signature(value if bind is None else bind(value, object(), owner))
    except (TypeError, ValueError):
        return None


def plain_parameters(signature: inspect.Signature) -> tuple[str, ...] | None:
    """The parameter names of a signature without `*args` or `**kwargs`; None where it has either."""
    if any(p.kind in _VARIADIC for p in signature.parameters.values()):
        return None
    return tuple(signature.parameters)


def without_annotations(signature: inspect.Signature) -> inspect.Signature:
    """The same parameters and defaults, short enough for a message."""
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    return inspect.Signature(bare)


def broken_calls(contract: inspect.Signature, override: inspect.Signature) -> list[str]:
    """The calls that `contract` allows and `override` cannot take, one phrase each; empty if none.

    An argument must arrive under its own name, or in `*args` and `**kwargs`, however it is passed.
    """
    wanted, given = contract.parameters, override.parameters
    places = [p.name for p in given.values() if p.kind in _POSITIONAL]
    problems: list[str] = []
    renamed: set[str] = set()

    for place, want in enumerate(wanted.values()):
        by_position = want.kind in _POSITIONAL
        have = given.get(want.name)
        if have is not None and have.kind not in _VARIADIC:
            problems.extend(_different(want, have, place, places))
        elif by_position and place < len(places) and places[place] not in wanted:
            renamed.add(places[place])
            problems.append(f"renames parameter '{want.name}' to '{places[place]}'")
        else:
            problems.extend(_absent(want.name, override, by_position, place >= len(places)))

    problems.extend(
        f"requires a new parameter '{p.name}'"
        for p in given.values()
        if p.name not in wanted and p.kind not in _VARIADIC and p.default is p.empty and p.name not in renamed
    )
    return problems


def _different(want: inspect.Parameter, have: inspect.Parameter, place: int, places: list[str]) -> list[str]:
    """The problems of a parameter that kept its name but accepts fewer calls than the contract's."""
    problems = []
    if have.kind is inspect.Parameter.POSITIONAL_ONLY:
        problems.append(f"cannot take '{want.name}' by name")
    if want.kind in _POSITIONAL:
        if have.kind is inspect.Parameter.KEYWORD_ONLY:
            problems.append(f"cannot take '{want.name}' by position")
        elif places.index(want.name) != place:
            here = places.index(want.name)
            problems.append(f"moves parameter '{want.name}' from place {place + 1} to {here + 1}")
    if want.default is not want.empty and have.default is have.empty:
        problems.append(
            f"makes parameter '{want.name}' required (the contract's default is {want.default!r})"
        )
    return problems


def _absent(name: str, override: inspect.Signature, by_position: bool, reaches_args: bool) -> list[str]:
    """The problem of a parameter that only `*args` and `**kwargs` could take; empty if they do."""
    kinds = {p.kind for p in override.parameters.values()}
    takes_name = inspect.Parameter.VAR_KEYWORD in kinds
    takes_position = inspect.Parameter.VAR_POSITIONAL in kinds and reaches_args
    if takes_name and (takes_position or not by_position):
        return []
    if takes_name:
        return [f"cannot take '{name}' by position"]
    if takes_position:
        return [f"cannot take '{name}' by name"]
    return [f"lost parameter '{name}'"]
