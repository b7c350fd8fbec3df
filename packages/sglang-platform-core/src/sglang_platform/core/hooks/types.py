"""The hook types, one record each.

All code that depends on the hook type reads the record: registration, the signature check, the call frame, the static
hook check and the table in `docs/hooks.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Literal, NamedTuple

__all__ = ["RETURN_NONE", "Flavour", "HookType", "Place", "TypeRecord"]

Hook = Callable[..., Any]

Flavour = Literal["plain", "coroutine", "generator", "async generator"]
"""The kind of result of a call: a value, or an object that runs the function's body later."""

Place = Literal["way in", "way out", "around", "instead"]
"""When a hook runs in a call. "way in" and "way out" hooks cost no extra frame."""


def _itself(hook: Hook, flavour: Flavour) -> Hook:
    return hook


class TypeRecord(NamedTuple):
    """One hook type.

    value: SGLang's spelling.
    place: when the hook is called. "instead" means that the hook replaces the target; only then may it be a class.
    first: name of the argument before the target's arguments, e.g. "result" or "original"; None if there is none.
    returns: the use of the returned value. A returned None keeps the arguments ("arguments") or the old result ("new
        result").
    effect: the same in prose, for the table in `docs/hooks.md`.
    may_be_generator: False if the hook must run at once; a generator's body would never run.
    as_around: for "around" only: converts the hook to ``fn(original, *args, **kwargs)`` with the effect of this type on
        a target of the given flavour.
    """

    value: str
    place: Place
    first: str | None
    returns: Literal["arguments", "new result", "result"]
    effect: str
    may_be_generator: bool = False
    as_around: Callable[[Hook, Flavour], Hook] = _itself

    @property
    def given(self) -> int:
        """Number of arguments that the hook takes before the target's."""
        return 0 if self.first is None else 1

    @property
    def signature(self) -> str:
        """The hook's signature as in the documentation: ``fn(result, *args, **kwargs)``."""
        return f"fn({'' if self.first is None else self.first + ', '}*args, **kwargs)"


class HookType(Enum):
    """When a hook runs in a call of its target, and its effect; see `record`. Names and values are SGLang's."""

    _value_: str

    BEFORE = TypeRecord(
        value="before",
        place="way in",
        first=None,
        returns="arguments",
        effect="None, or `(args, kwargs)` to go on with",
    )
    AFTER = TypeRecord(
        value="after",
        place="way out",
        first="result",
        returns="new result",
        effect="None keeps the result; another value replaces it; `RETURN_NONE` replaces it by None",
    )
    AROUND = TypeRecord(
        value="around",
        place="around",
        first="original",
        returns="result",
        effect="calls `original` or not",
        may_be_generator=True,
    )
    REPLACE = TypeRecord(
        value="replace",
        place="instead",
        first=None,
        returns="result",
        effect="stands in its place; a class replaces a class",
        may_be_generator=True,
    )

    def __new__(cls, *fields: Any) -> HookType:  # an Enum passes the fields of a tuple one by one
        member = object.__new__(cls)
        member._value_ = TypeRecord(*fields).value
        return member

    def __init__(self, *fields: Any) -> None:
        self.record = TypeRecord(*fields)


class _ReturnNone:
    """The type of `RETURN_NONE`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "RETURN_NONE"


RETURN_NONE = _ReturnNone()
"""An AFTER hook returns this to make the result None, since None itself means "keep the result"."""
