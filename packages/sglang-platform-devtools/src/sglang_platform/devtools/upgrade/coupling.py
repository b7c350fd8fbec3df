"""One place in a plugin that depends on the host."""

from __future__ import annotations

import inspect
from typing import Literal, NamedTuple, get_args

from sglang_platform.devtools.host_calls import Call
from sglang_platform.devtools.registrations import WantedHook
from sglang_platform.devtools.upgrade.sides import Pair

__all__ = ["KINDS", "Coupling", "Kind", "SourcePlace"]

Kind = Literal[
    "import",
    "base",
    "override",
    "call",
    "construct",
    "field",
    "unpack",
    "patch",
    "hook",
    "environment",
    "group",
    "argument",
    "name",
]
"""What a plugin depends on the host by."""

KINDS: tuple[Kind, ...] = get_args(Kind)


class SourcePlace(NamedTuple):
    """A line of the plugin; `file` is relative to where its sources are."""

    file: str
    line: int
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Coupling(NamedTuple):
    """`target`: the host's full name, or the text of a variable, flag or name."""

    kind: Kind
    target: str
    place: SourcePlace
    pair: Pair | None = None
    """For what belongs to a class: the class. `member` is its name there."""
    member: str = ""
    call: Call | None = None
    values: int = 0
    """For `unpack`: into how many values."""
    mine: inspect.Signature | None = None
    """For `override`: what the plugin's method takes, without `self`."""
    own: frozenset[str] = frozenset()
    """For `base`: what the plugin's class and its other bases define."""
    hook: WantedHook | None = None
    guarded: bool = False
    """Where it is missing, the plugin goes on: `except ImportError`, a `getattr` with a default."""
    guessed: bool = False
    """The class is the usual one of a parameter of this name."""
    subject: str = ""
    """For texts: what a name is given to, as the argument `attention_backend`."""
