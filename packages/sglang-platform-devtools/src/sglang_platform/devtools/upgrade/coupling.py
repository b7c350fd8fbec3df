"""One place in a plugin that depends on the host."""

from __future__ import annotations

import inspect
from typing import Literal, NamedTuple, get_args

from sglang_platform.devtools.flow.values import LineReach
from sglang_platform.devtools.host_calls import Call
from sglang_platform.devtools.registrations import WantedHook
from sglang_platform.devtools.upgrade.members import HostClass

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
"""The kind of dependency."""

KINDS: tuple[Kind, ...] = get_args(Kind)


class SourcePlace(NamedTuple):
    """A line of the plugin; `file` is relative to the plugin's source folder."""

    file: str
    line: int
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Coupling(NamedTuple):
    """One dependency. `target`: a full name in the host, or the string of a variable, flag or name."""

    kind: Kind
    target: str
    place: SourcePlace
    owner: HostClass | None = None
    """For a class or its member: the class in the release that the plugin works on. `member`: the member's name."""
    member: str = ""
    call: Call | None = None
    values: int = 0
    """For `unpack`: the number of values."""
    mine: inspect.Signature | None = None
    """For `override`: the signature of the plugin's method, without `self`."""
    own: frozenset[str] = frozenset()
    """For `base`: the names that the plugin's class and its other bases define."""
    hook: WantedHook | None = None
    reach: LineReach = LineReach()
    """Whether the line runs beside the newer release, and whether the plugin handles its failure."""
    failure: str = ""
    """For a name that the newer release lacks: what it raises, and when."""
    subject: str = ""
    """For strings: where a name is used, such as the argument `attention_backend`."""
