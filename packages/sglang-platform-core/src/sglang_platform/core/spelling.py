"""Text for messages: the nearest known spelling of a name, and a safe `repr`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["nearest", "shown"]


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The name in `known` that is most similar to `name`, or None if none is close: less than `cutoff` of 1."""
    import difflib

    by_folded = {_folded(candidate): candidate for candidate in known}
    matches = difflib.get_close_matches(_folded(name), by_folded, n=1, cutoff=cutoff)
    return by_folded[matches[0]] if matches else None


def shown(value: Any) -> str:
    """`repr(value)`, or a placeholder if the object's `__repr__` raises."""
    try:
        return repr(value)
    except BaseException as error:  # noqa: BLE001  (foreign code)
        return f"<{type(value).__qualname__} object, whose __repr__ raises {type(error).__name__}>"


def _folded(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "_")
