"""The hook types, one record each.

All that treats hooks by their type reads the record: registration, the check of a signature, the frame of a call, the
static hook check and the table in `docs/hooks.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Literal, NamedTuple

__all__ = ["RETURN_NONE", "Flavour", "HookType", "Place", "TypeRecord"]

Hook = Callable[..., Any]

Flavour = Literal["plain", "coroutine", "generator", "async generator"]
"""The result of a function's call: a value, or an object that runs the function."""

Place = Literal["way in", "way out", "around", "instead"]
"""When a hook runs in a call. On the way in and on the way out it costs no frame of its own."""


def _itself(hook: Hook, flavour: Flavour) -> Hook:
    return hook


class TypeRecord(NamedTuple):
    """One hook type.

    value: SGLang's spelling.
    place: the time of the hook's call. "instead" puts the hook in the target's place; there alone it may be a class.
    first: the argument before the target's: "result", "original" or another name. None where there is none.
    returns: the use of the returned value. None keeps the arguments, or the old result before a "new result".
    effect: the same in words, for the table in `docs/hooks.md`.
    may_be_generator: False for a hook that runs at once; a generator would never run.
    as_around: for "around" only: makes an AROUND hook, ``fn(original, *args, **kwargs)``, with the effect of this type
        on a target of the given flavour.
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
        """How many arguments the hook gets before the target's."""
        return 0 if self.first is None else 1

    @property
    def signature(self) -> str:
        """As in the documentation: ``fn(result, *args, **kwargs)``."""
        return f"fn({'' if self.first is None else self.first + ', '}*args, **kwargs)"


class HookType(Enum):
    """The part of a hook in a call of its target, described by its `record`. The names and values are SGLang's."""

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
