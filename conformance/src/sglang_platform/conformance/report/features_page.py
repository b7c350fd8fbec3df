"""The page of engine features: feature x platform x release, in Markdown, from reports of the level `features`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from packaging.version import InvalidVersion, Version

from sglang_platform.conformance.host.features.record import FeatureRecord
from sglang_platform.conformance.level import Level
from sglang_platform.core.errors import ConfigurationError

__all__ = ["features_page"]

_HEAD = """# Engine features

Generated from conformance reports by `nox -s features`; do not edit. Each feature was tried in a running, unmodified
SGLang of the release named.

- served: tokens or values equal to the reference, by the platform's own parts; a row's proof is told below.
- refused: the launch stops, before a worker runs, with the words of the note.
- not in it: the release does not have the feature.
- unverified: not tried, for the reason in the note.
- **fails**: a wrong answer, or an engine that died.

"""


def features_page(reports: Sequence[dict[str, Any]], features: Sequence[FeatureRecord]) -> str:
    """The page's text. A platform on a release is a column; a feature that its reports do not hold is unverified there.

    Of several reports on one column, each feature is as the latest that holds it says.
    """
    columns: dict[tuple[str, Version], dict[str, Any]] = {}
    for report in sorted(reports, key=lambda one: one["run"]["started"]):
        column = columns.setdefault((report["platform"]["name"], _release(report)), {})
        column |= {outcome["id"]: outcome for outcome in report["outcomes"]}
    notes = _Notes()
    heads = [f"{name} on {release}" for name, release in sorted(columns)]
    lines = [_row(["feature", *heads]), _row(["---"] * (len(heads) + 1))]
    found = [columns[key] for key in sorted(columns)]
    for group in dict.fromkeys(one.group for one in features):
        lines.append(_row([f"**{group}**", *([""] * len(heads))]))
        for feature in (one for one in features if one.group == group):
            identity = f"{Level.FEATURES.label}.{feature.name}"
            cells = [notes.cell(outcomes.get(identity)) for outcomes in found]
            lines.append(_row([feature.title, *cells]))
    totals = [notes.total(outcomes.values()) for outcomes in found]
    lines += [_row(["served, of those in the release", *totals]), ""]
    lines += notes.lines()
    lines += ["## What each row proves", ""]
    lines += [f"- {feature.group}, {feature.title}: {feature.proves}" for feature in features]
    return _HEAD + "\n".join(lines) + "\n"


class _Notes:
    """The words behind the cells, each told once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def cell(self, outcome: dict[str, Any] | None) -> str:
        if outcome is None:
            return f"unverified {self._number('the report does not hold it')}"
        state, words = _state(outcome)
        return f"{state} {self._number(words)}" if words else state

    def total(self, outcomes: Iterable[dict[str, Any]]) -> str:
        states = [_state(outcome)[0] for outcome in outcomes]
        return f"{states.count('served')} of {len(states) - states.count('not in it')}"

    def lines(self) -> list[str]:
        if not self._numbers:
            return []
        return ["## Notes", "", *(f"{number}. {words}" for words, number in self._numbers.items()), ""]

    def _number(self, words: str) -> str:
        return f"({self._numbers.setdefault(words, len(self._numbers) + 1)})"


def _state(outcome: dict[str, Any]) -> tuple[str, str]:
    """What became of a feature, and the words for it."""
    if outcome["status"] == "passed":
        return "served", ""
    why = _one_line(outcome["why"] or outcome["what"] or "")
    if outcome["status"] == "not_applicable":
        return "not in it", ""
    if outcome["status"] != "not_run":
        return "**fails**", why
    if why.startswith("refused before launch: "):
        return "refused", why.removeprefix("refused before launch: ")
    return "unverified", why


def _one_line(text: str) -> str:
    return text.splitlines()[0][:400] if text else ""


def _release(report: dict[str, Any]) -> Version:
    release = report["environment"]["packages"].get("sglang") or "0"
    try:
        return Version(release)
    except InvalidVersion:
        raise ConfigurationError(
            f"a report of {report['platform']['name']} has no place on this page",
            why=f"{release!r:.100}, its SGLang, is no version",
            fix="make the report again",
        ) from None


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"
