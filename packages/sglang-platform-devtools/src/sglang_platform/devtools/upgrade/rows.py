"""The rows of the report."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

from sglang_platform.devtools.upgrade.coupling import Coupling, Kind, SourcePlace

__all__ = ["VERDICTS", "CouplingChange", "Side", "Upgrade", "Verdict", "change_of", "describe", "merged"]

Verdict = Literal["breaks", "look", "fits"]
"""``breaks``: fails, or no longer has an effect. ``look``: the plugin's code may mean something else, or lacks
something. ``fits``: it changed, and the plugin's code works with both releases."""

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
"""The worst first."""


class Side(NamedTuple):
    """The code in one release. `place` is a file of the host with its line."""

    text: str
    place: str | None = None


class CouplingChange(NamedTuple):
    """What changed for one coupling. `how` is a word for programs: gone, moved, changed, base, duty, bypassed."""

    kind: Kind
    target: str
    verdict: Verdict
    how: str
    what: str
    places: tuple[SourcePlace, ...]
    old: Side | None = None
    new: Side | None = None
    fix: str | None = None


def change_of(
    coupling: Coupling,
    verdict: Verdict,
    how: str,
    what: str,
    old: Side | None,
    new: Side | None,
    fix: str | None,
    part: str = "",
) -> CouplingChange:
    """The row of one coupling; `part`: the name in a class that the row is about."""
    target = f"{coupling.target}.{part}" if part else coupling.target
    return CouplingChange(coupling.kind, target, verdict, how, what, (coupling.place,), old, new, fix)


class Upgrade(NamedTuple):
    """The whole report. `looked`: couplings by kind; `unread`: places that were not examined, with the reason."""

    plugin: str
    old: str
    new: str
    changes: tuple[CouplingChange, ...]
    looked: dict[str, int]
    unread: tuple[tuple[str, str], ...]
    notes: tuple[str, ...] = ()

    def count(self, verdict: Verdict) -> int:
        return sum(one.verdict == verdict for one in self.changes)


def merged(changes: list[CouplingChange]) -> tuple[CouplingChange, ...]:
    """Merge equal rows of several lines; the worst first, then in line order."""
    rows: dict[tuple[object, ...], CouplingChange] = {}
    for one in changes:
        key = (one.kind, one.target, one.verdict, one.how, one.what, one.fix)
        known = rows.get(key)
        if known is None:
            rows[key] = one
        elif one.places[0] not in known.places:
            rows[key] = known._replace(places=(*known.places, *one.places))
    found = sorted(
        rows.values(), key=lambda one: (VERDICTS.index(one.verdict), one.places[0].file, one.places[0].line)
    )
    return tuple(found)


def describe(upgrade: Upgrade) -> dict[str, Any]:
    """The report in JSON's types."""

    def side(one: Side | None) -> dict[str, Any] | None:
        return one._asdict() if one is not None else None

    return {
        "schema": 1,
        "plugin": upgrade.plugin,
        "from": upgrade.old,
        "to": upgrade.new,
        "looked_at": upgrade.looked,
        "changes": [
            {
                **one._asdict(),
                "places": [place._asdict() for place in one.places],
                "old": side(one.old),
                "new": side(one.new),
            }
            for one in upgrade.changes
        ],
        "not_looked_at": [{"where": where, "why": why} for where, why in upgrade.unread],
        "notes": list(upgrade.notes),
    }
