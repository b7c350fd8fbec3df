"""Failures by cause: what one repair mends is told once.

Wrong answers of one cause are to be mended alike: they have one fix. Errors of one cause are raised at one line of the
plugin, with the same words but for numbers. A check that was blocked belongs to the cause of the check that blocked it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sglang_platform.conformance.outcome import BAD, case_text, failed_with

__all__ = ["Cause", "by_cause", "ids_in_short", "without_cause"]

_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+(\.\d+)?(e[+-]?\d+)?")
_RAISED = re.compile(r"\b\w+(Error|Exception|Interrupt|Exit)\b.*")
_IDS, _WORDS = 100, 210
"""Characters of ids and of what was seen that a block has room for."""


@dataclass
class Cause:
    """`first` is the failure that is told; `others` fail alike, `blocked` were not run since one of these failed."""

    first: Mapping[str, Any]
    others: list[Mapping[str, Any]] = field(default_factory=list)
    blocked: list[Mapping[str, Any]] = field(default_factory=list)

    def lines(self) -> Iterator[tuple[str, str]]:
        """Label and text of each line of a block; the report has what is left out here."""
        one = self.first
        failing, died = len(one["failing"]), one["failure"] in ("crash", "timeout")
        many = f" ({failing} of {max(one['cases'], failing)} cases fail)" if failing > 1 else ""
        yield "proves", _clipped(one["proves"], 130)
        yield "at", (one["place"] or "").removeprefix(f"{Path.cwd()}/")
        yield "seen", _clipped(one["what"] or one["why"] or "", _WORDS)
        yield "last", "\n".join((one["trace"] or "").splitlines()[-3:]) if died else ""
        case = {name: value for name, value in (one["case"] or {}).items() if value not in (None, {})}
        yield "case", _clipped(case_text(case), 120) + many
        yield "fix", one["fix"] or ""
        yield "also", ids_in_short(self.others, "fail alike")
        yield "blocks", ids_in_short(self.blocked, "not run")
        yield "check", one["source"] or ""
        yield "again", one["rerun"] or ""


def by_cause(outcomes: Sequence[Mapping[str, Any]]) -> list[Cause]:
    """The most fundamental first: those that block others, then in the order of the run."""
    causes: dict[tuple[Any, ...], Cause] = {}
    of: dict[tuple[str, str], Cause] = {}
    for one in (part for outcome in outcomes for part in _parts(outcome)):
        first, *more = [each for each in one["failing"] if each["waived"] is None] or [one]
        known = [causes[key] for key in _keys(first) if key in causes]
        cause = known[0] if known else Cause(one)
        for part in ("", *map(_part, (first, *more))):
            of.setdefault((one["id"], part), cause)
        if one["id"] not in [each["id"] for each in (cause.first, *cause.others)]:
            cause.others.append(one)
        for each in (first, *more):
            for key in _keys(each):
                causes.setdefault(key, cause)
    blocked_by = {one["id"]: _blocker(one) for one in outcomes if one["status"] == "blocked"}
    for one in outcomes:
        blocker, part = one["id"], ""
        for _ in blocked_by:  # a check that blocks may be blocked itself
            blocker, part = blocked_by.get(blocker, (blocker, part))
        told = of.get((blocker, part)) or of.get((blocker, ""))
        if one["id"] in blocked_by and told is not None:
            told.blocked.append(one)
    found = list({id(cause): cause for cause in of.values()}.values())
    return sorted(found, key=lambda cause: not cause.blocked)


def without_cause(outcomes: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """The ids of checks that were blocked by one that did not fail in this run, by the reason why."""
    told = {one["id"] for cause in by_cause(outcomes) for one in cause.blocked}
    reasons: dict[str, list[str]] = {}
    for one in outcomes:
        if one["status"] == "blocked" and one["id"] not in told:
            reasons.setdefault(one["why"], []).append(one["id"])
    return reasons


def _parts(one: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A bad outcome, or where cases of several parts fail, that of each; rows that fail at one line are one part."""
    if one["status"] not in BAD or one["status"] == "blocked":
        return
    parts: dict[str, list[dict[str, Any]]] = {}
    for each in one["failing"]:
        if each["waived"] is None:
            parts.setdefault(_mended_at_once(each), []).append(each)
    yield from [{**one, **failed_with(mine)} for mine in parts.values()] if len(parts) > 1 else [one]


def _part(failing: Mapping[str, Any]) -> str:
    """What a case is about, where its check runs over parts that are mended one by one: an op, as in `Check.founds`, or
    a row of a table."""
    case = failing["case"] or {}
    if "op" in case:
        return f"op {case['op']}"
    return str(case["row"]) if case.keys() == {"row"} else ""


def _mended_at_once(failing: Mapping[str, Any]) -> str:
    """The line of the plugin at which a row fails, else its part."""
    is_row = (failing["case"] or {}).keys() == {"row"}
    return (failing["place"] if is_row else None) or _part(failing)


def _keys(failing: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """What is alike in failures of one cause: where and how the plugin raised, also where the check says it in words of
    its own; else the fix."""
    said, fix = (_NUMBER.sub("#", failing[name] or "") for name in ("what", "fix"))
    raised = _RAISED.search(said)
    if failing["place"] and raised:
        yield failing["place"], raised[0]
    if failing["failure"] not in ("error", "crash", "timeout"):
        yield (fix or said,)
    elif not (failing["place"] and raised):
        yield failing["place"], said


def _blocker(one: Mapping[str, Any]) -> tuple[str, str]:
    """Every reason of a blocked check is `PART fails: see CHECK`."""
    part, _, check = str(one["why"]).rpartition(": see ")
    return check, part.removesuffix(" fails")


def ids_in_short(outcomes: Sequence[Mapping[str, Any]], how: str) -> str:
    """`3 fail alike: memory.a, memory.b and 1 more`."""
    text = f"{len(outcomes)} {how}: " if outcomes else ""
    for at, one in enumerate(outcomes):
        if len(text) + len(one["id"]) > _IDS and at:
            return f"{text.removesuffix(', ')} and {len(outcomes) - at} more"
        text += f"{one['id']}, "
    return text.removesuffix(", ")


def _clipped(text: str, length: int) -> str:
    """Its first paragraph, cut between words."""
    line = " ".join(text.split("\n\n")[0].split())
    return line if len(line) <= length else f"{line[: length - 3].rpartition(' ')[0]} ..."
