"""A vendor's class on a class of SGLang's as its overrides are judged: of a process, or of a source."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from sglang_platform.core.contract.members import kind_of
from sglang_platform.core.contract.signatures import bound_signature
from sglang_platform.devtools.source.opening import package_files
from sglang_platform.devtools.written import place_of, statement_of

__all__ = [
    "CALLED",
    "ReadClass",
    "ReadMember",
    "ReadPart",
    "class_of_process",
    "is_hosts",
    "is_mentioned",
    "is_vendors",
]

CALLED = ("method", "classmethod", "staticmethod")


class ReadMember(NamedTuple):
    """One name that a class defines. `signature`: what its callers pass, None if unknown. `node`: its `def`."""

    kind: str
    """As `kind_of` says it, or "unknown"."""

    signature: inspect.Signature | None = None
    node: ast.AST | None = None
    place: str | None = None


class ReadPart(NamedTuple):
    """One class of a method resolution order, and who wrote it."""

    name: str
    module: str
    wrote: Literal["vendor", "host", "other"]
    members: Mapping[str, ReadMember]


class ReadClass(NamedTuple):
    """A vendor's class. `reads_all`: no base was left unread."""

    name: str
    place: str | None
    mro: list[ReadPart]
    is_used: Callable[[ReadPart, str], bool]
    """Whether the package of a part mentions a name outside its definition."""

    reads_all: bool = True

    @property
    def vendors(self) -> list[ReadPart]:
        return [part for part in self.mro if part.wrote == "vendor"]

    def first(self, name: str) -> ReadPart:
        """The class whose definition of a name counts."""
        return next(part for part in self.mro if name in part.members)

    def of_host(self, name: str) -> ReadPart | None:
        """The first class of SGLang's that defines a name."""
        return next((part for part in self.mro if part.wrote == "host" and name in part.members), None)


def class_of_process(cls: type) -> ReadClass:
    """A class of this process."""
    return ReadClass(cls.__qualname__, place_of(cls), [_part(klass) for klass in cls.__mro__], _is_used)


def _part(klass: type) -> ReadPart:
    wrote: Literal["vendor", "host", "other"] = (
        "host" if is_hosts(klass) else "vendor" if is_vendors(klass) else "other"
    )
    members = {
        name: ReadMember(kind_of(value)) if wrote == "other" else _member(klass, name, value)
        for name, value in vars(klass).items()
    }
    return ReadPart(klass.__qualname__, klass.__module__, wrote, members)


def _member(klass: type, name: str, value: Any) -> ReadMember:
    kind = kind_of(value)
    signature = bound_signature(value, klass) if kind in CALLED else None
    return ReadMember(kind, signature, statement_of(value), place_of(klass, name))


def is_hosts(cls: type) -> bool:
    """Whether SGLang wrote the class."""
    return cls.__module__.partition(".")[0] == "sglang"


def is_vendors(cls: type) -> bool:
    """Whether the class is from a plugin or one of its libraries: not from SGLang, Python or torch."""
    top = cls.__module__.partition(".")[0]
    return not is_hosts(cls) and top != "torch" and top not in sys.stdlib_module_names


def _is_used(part: ReadPart, name: str) -> bool:
    return is_mentioned(name, [path.read_bytes() for _, path in package_files(part.module)])


def is_mentioned(name: str, texts: list[bytes]) -> bool:
    """Whether sources mention a name outside its definitions."""
    said = re.compile(rb"(\bdef\s+)?\b%s\b" % name.encode())
    return any(not one[1] for text in texts for one in said.finditer(text))
