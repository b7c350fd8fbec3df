"""A remark: one result of a check."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

__all__ = ["Checked", "Level", "Part", "Remark", "describe", "worst_first"]

Level = Literal["problem", "warning", "note"]
Part = Literal["packaging", "installation", "hooks", "couplings"]

_ORDER = ("problem", "warning", "note")


class Remark(NamedTuple):
    """`id` is stable, and `doctor`'s for a line that depends on SGLang. `file` is relative to the plugin's folder;
    None if the remark concerns no line."""

    part: Part
    id: str
    level: Level
    what: str
    file: str | None = None
    line: int | None = None
    why: str | None = None
    fix: str | None = None

    @property
    def where(self) -> str:
        return "" if self.file is None else f"{self.file}:{self.line}" if self.line else self.file


class Checked(NamedTuple):
    """The result of `check`. `unread`: (place, why it was not examined). `asked`: whether the plugin was run."""

    plugin: str
    host: str
    remarks: tuple[Remark, ...]
    unread: tuple[tuple[str, str], ...]
    looked: dict[str, int]
    asked: bool = False

    def count(self, level: Level) -> int:
        return sum(one.level == level for one in self.remarks)

    @property
    def verdict(self) -> str:
        if self.count("problem"):
            return "problems found"
        return "incomplete: no problem in what was looked at" if self.unread else "no problem found"


def worst_first(remarks: Iterable[Remark]) -> tuple[Remark, ...]:
    return tuple(sorted(dict.fromkeys(remarks), key=lambda one: _ORDER.index(one.level)))


def describe(checked: Checked) -> dict[str, Any]:
    """The result in plain JSON types."""
    return {
        "schema": 1,
        "plugin": checked.plugin,
        "host": checked.host,
        "verdict": checked.verdict,
        "looked_at": checked.looked,
        "remarks": [one._asdict() for one in checked.remarks],
        "not_looked_at": [{"where": where, "why": why} for where, why in checked.unread],
    }
