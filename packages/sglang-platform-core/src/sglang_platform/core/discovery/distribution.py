"""A distribution as the scan finds it, before it is known whether another one of its name hides it."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["FoundDistribution", "UnreadableMetadata", "normalize"]


class UnreadableMetadata(NamedTuple):
    """A metadata file that may carry a plugin and cannot be read."""

    path: str
    reason: str


def normalize(name: str) -> str:
    """A distribution's name in the form in which two spellings of it are equal."""
    return re.sub(r"[-_.]+", "_", name).lower()


class FoundDistribution:
    """A distribution on the path; one without entry points counts because it may hide one that has them."""

    __slots__ = ("entry_points", "has_metadata", "identity", "name", "path")

    def __init__(
        self,
        name: str,
        path: str,
        has_metadata: bool | None = None,
        entry_points: list[tuple[str, str, str]] | None = None,
        identity: tuple[str | None, str | None] | None = None,
    ) -> None:
        self.name = name  # normalised
        self.path = path
        self.has_metadata = has_metadata  # None where nobody had to look yet, as with the identity
        self.entry_points = entry_points or []  # (group, name, value)
        self.identity = identity  # (name, version) as the metadata states them
