"""The nearest spelling of a name, for messages."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["nearest"]


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The name in `known` that `name` was most likely meant to be, or None where nothing comes near."""
    import difflib

    by_folded = {_folded(candidate): candidate for candidate in known}
    matches = difflib.get_close_matches(_folded(name), by_folded, n=1, cutoff=0.6)
    return by_folded[matches[0]] if matches else None


def _folded(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "_")
