"""Distributions as the scan finds them, with what their `entry_points.txt` says.

Whether a distribution is shadowed by another one of the same name is decided later, in `scan`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from sglang_platform.core.discovery.groups import KNOWN_GROUPS

__all__ = [
    "FoundDistribution",
    "UnreadableMetadata",
    "entry_points",
    "may_name_plugins",
    "normalize",
]


class UnreadableMetadata(NamedTuple):
    """A metadata file that may declare a plugin but cannot be read."""

    path: str
    reason: str


def normalize(name: str) -> str:
    """A distribution's name in normal form, in which all its spellings are equal."""
    return re.sub(r"[-_.]+", "_", name).lower()


class FoundDistribution(NamedTuple):
    """A distribution on the path. It counts even without entry points, since it may shadow one that has some."""

    name: str
    """Normalised."""
    path: str
    entry_points: list[tuple[str, str, str]]
    """(group, name, value)."""


_MENTION = b"sglang"


def may_name_plugins(text: bytes) -> bool:
    """Whether the file mentions sglang, in any case or encoding, or is damaged (zero bytes only)."""
    bare = text.replace(b"\0", b"")  # UTF-16 and UTF-32
    return _MENTION in bare.lower() or (not bare and bool(text))


def entry_points(text: bytes) -> list[tuple[str, str, str]]:
    """(group, name, value) of each entry point in a group whose name contains "sglang".

    Raises ValueError if the file is malformed or misspells a group, so that a plugin could go unnoticed.
    """
    if b"\0" in text:
        raise ValueError("it is not UTF-8, but has zero bytes, as UTF-16 has")
    if text.startswith(b"\xef\xbb\xbf"):
        raise ValueError("it begins with a byte-order mark, which hides its first group")
    found = [point for point in _parse(text.decode("utf-8")) if "sglang" in point[0].lower()]
    for group, _, _ in found:
        meant = group.strip().lower()
        if group != meant and meant in KNOWN_GROUPS:
            raise ValueError(f"the group is written [{group}], which nobody reads; it must be [{meant}]")
    return found


def _parse(text: str) -> Iterator[tuple[str, str, str]]:
    group = None
    for line in map(str.strip, text.splitlines()):
        if not line or line.startswith("#"):
            continue
        if line.startswith("[") and line.endswith("]"):
            group = line.strip("[]")
        elif group is not None:
            name, equals, value = line.partition("=")
            if not equals:
                raise ValueError(f"the line {line!r} in [{group}] is not `name = value`")
            yield group, name.strip(), value.strip()
        elif "sglang" in line.lower():
            raise ValueError(f"the line {line!r} stands before any [group]")
