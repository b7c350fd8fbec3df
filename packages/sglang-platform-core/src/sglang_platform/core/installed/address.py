"""The address of a name: a module and the attribute path in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["Address", "nearest"]


class Address(NamedTuple):
    """`module` is dotted; `path` is ``("Class", "method")``."""

    module: str
    path: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.module}:{'.'.join(self.path)}"


def nearest(name: str, names: Iterable[str]) -> tuple[str, ...]:
    """Up to three of `names` that are spelled like `name`, the likeliest first."""
    import difflib  # needed only for error messages

    return tuple(difflib.get_close_matches(name, list(dict.fromkeys(names)), n=3, cutoff=0.6))
