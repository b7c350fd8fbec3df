"""What failed, on a terminal: a block of at most eight lines for each cause, the most fundamental first."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sglang_platform.conformance.report.causes import Cause, by_cause, ids_in_short, without_cause
from sglang_platform.core.cli.page import Page

__all__ = ["print_causes"]

_MOST = 5
_LINES = 8
"""Of a block; the report has what is cut, and the check's sentence and place."""

_ROOM = {"at": 1, "seen": 2, "last": 1, "case": 1, "fix": 0, "also": 1, "blocks": 1}
"""The most lines of each field; the fix has what the others leave."""

_LABELS = len("blocks: ") + 2
"""Columns before a field's text, of the longest label."""


def print_causes(out: Page, outcomes: Sequence[Mapping[str, Any]]) -> None:
    """At most five blocks, then how to run one again; the causes that are left are named."""
    from rich.text import Text

    causes = by_cause(outcomes)
    for cause in causes[:_MOST]:
        said = cause.first["status"].replace("_", " ")
        out.block(
            Text(f"{said} ", style="bold red") + Text(cause.first["id"], style="bold"),
            [
                (label, Text(text, style="green" if label == "fix" else "default"))
                for label, text in _fitted(cause, out.width - _LABELS)
            ],
        )
    if len(causes) > _MOST:
        more = ids_in_short([cause.first for cause in causes[_MOST:]], "more causes")
        out.print(Text(f"{more}; they are printed when these are mended", style="bold red"))
    for why, blocked in without_cause(outcomes).items():
        out.print(Text(f"{len(blocked)} checks could not be run: {why}", style="bold red"))
    again = next((cause.first["rerun"] for cause in causes if cause.first["rerun"]), None)
    if again:
        out.print(f"again:  {again}")


def _fitted(cause: Cause, width: int) -> Iterator[tuple[str, str]]:
    """The fields of a block, cut between words so that all have room."""
    said = {label: text for label, text in cause.lines() if label in _ROOM and text}
    shown = {label: _cut(text, width, _ROOM[label]) for label, text in said.items() if label != "fix"}
    left = _LINES - 1 - sum(map(len, shown.values()))
    for label, text in said.items():
        yield label, " ".join(_cut(text, width, max(left, 2)) if label == "fix" else shown[label])


def _cut(text: str, width: int, most: int) -> list[str]:
    """The first lines of a text; a word is never cut."""
    lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    if len(lines) <= most:
        return lines
    kept = " ".join(lines[:most]).rstrip(",;:")
    while len(textwrap.wrap(f"{kept} ...", width, break_long_words=False, break_on_hyphens=False)) > most:
        shorter = kept.rpartition(" ")[0]
        if not shorter:
            break
        kept = shorter
    return textwrap.wrap(f"{kept} ...", width, break_long_words=False, break_on_hyphens=False)
