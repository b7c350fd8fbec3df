"""What changed between two reports."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

from sglang_platform.conformance.outcome import BAD, case_text

__all__ = ["Change", "Comparison", "compare_reports"]

Kind = Literal["broken", "repaired", "changed", "new", "gone"]


@dataclass(frozen=True)
class Change:
    """broken: passed, and does not any more. repaired: the reverse. changed: another state, or another failure."""

    kind: Kind
    id: str
    text: str


@dataclass
class Comparison:
    """Changes, worst first, and packages of another version."""

    changes: list[Change] = field(default_factory=list)
    versions: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)

    @property
    def is_worse(self) -> bool:
        return any(change.kind == "broken" for change in self.changes)

    @property
    def summary(self) -> str:
        counts = Counter(change.kind for change in self.changes)
        return ", ".join(f"{count} {kind}" for kind, count in counts.items()) or "nothing changed"

    def as_dict(self) -> dict[str, Any]:
        return {
            "changes": [dataclasses.asdict(change) for change in self.changes],
            "versions": {name: list(pair) for name, pair in self.versions.items()},
            "worse": self.is_worse,
        }


_ORDER: tuple[Kind, ...] = ("broken", "changed", "gone", "repaired", "new")


def compare_reports(old: dict[str, Any], new: dict[str, Any]) -> Comparison:
    """What `new` has otherwise than `old`, check by check and package by package."""
    before = {outcome["id"]: outcome for outcome in old["outcomes"]}
    after = {outcome["id"]: outcome for outcome in new["outcomes"]}
    found = Comparison()
    for name in sorted({*before, *after}):
        change = _change(name, before.get(name), after.get(name))
        if change is not None:
            found.changes.append(change)
    found.changes.sort(key=lambda change: _ORDER.index(change.kind))
    packages = (old["environment"]["packages"], new["environment"]["packages"])
    for name in sorted({*packages[0], *packages[1]}):
        pair = (packages[0].get(name), packages[1].get(name))
        if pair[0] != pair[1]:
            found.versions[name] = pair
    return found


def _change(name: str, old: dict[str, Any] | None, new: dict[str, Any] | None) -> Change | None:
    if old is None and new is not None:
        # A check that did not exist and fails now breaks nothing that was known to work.
        return Change("new", name, _state(new))
    if new is None and old is not None:
        return Change("gone", name, f"it was {_state(old)}, and is not in the new report")
    assert old is not None
    assert new is not None
    text = f"{_state(old)} -> {_state(new)}"
    if old["status"] == new["status"]:
        same = (old["what"], old["why"]) == (new["what"], new["why"])
        return None if same else Change("changed", name, text)
    if old["status"] == "passed" and new["status"] in BAD:
        return Change("broken", name, text)
    if old["status"] in BAD and new["status"] == "passed":
        return Change("repaired", name, text)
    return Change("changed", name, text)


def _state(outcome: dict[str, Any]) -> str:
    status: str = outcome["status"].replace("_", " ")
    reason = outcome["what"] or outcome["why"]
    if not reason:
        return status
    case = f" [{case_text(outcome['case'])}]" if outcome["case"] else ""
    return f"{status} ({reason.splitlines()[0]}{case})"
