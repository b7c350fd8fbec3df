"""The ways in which a block ends."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from sglang_platform.devtools.flow.values import Path, Raises

__all__ = ["End", "Ends"]


class End(NamedTuple):
    """One way to leave a block: with the names at that point."""

    kind: Literal["return", "raise", "break", "continue"]
    names: dict[str, Any]
    unsure: str = ""
    value: Any = None
    raised: Raises | None = None


class Ends(NamedTuple):
    """`path`: how it goes on behind the block; None if nothing goes on there."""

    path: Path | None
    ends: list[End]
