"""What failed, on a terminal: a block for each cause, the most fundamental first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sglang_platform.conformance.report.causes import by_cause, ids_in_short, without_cause
from sglang_platform.core.cli.page import Page

__all__ = ["print_causes"]

_MOST = 5


def print_causes(out: Page, outcomes: Sequence[Mapping[str, Any]]) -> None:
    """At most five blocks; the causes that are left are named."""
    from rich.text import Text

    causes = by_cause(outcomes)
    for cause in causes[:_MOST]:
        said = cause.first["status"].replace("_", " ")
        out.block(
            Text(f"{said} ", style="bold red") + Text(cause.first["id"], style="bold"),
            [
                (label, Text(text, style="green" if label == "fix" else "default"))
                for label, text in cause.lines()
            ],
        )
    if len(causes) > _MOST:
        more = ids_in_short([cause.first for cause in causes[_MOST:]], "more causes")
        out.print(Text(f"{more}; they are printed when these are mended", style="bold red"))
    for why, blocked in without_cause(outcomes).items():
        out.print(Text(f"{len(blocked)} checks could not be run: {why}", style="bold red"))
