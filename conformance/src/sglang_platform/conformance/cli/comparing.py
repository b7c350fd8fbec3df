"""`sglang-platform conformance compare OLD NEW`: what changed between two reports."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sglang_platform.core.cli.output import (
    FOUND_A_PROBLEM,
    NOT_UNDERSTOOD,
    JsonOption,
    console,
    print_json,
    print_refusal,
)
from sglang_platform.core.errors import PlatformError

__all__ = ["compare"]

# Imports inside functions: every `sglang-platform` command imports this file, and only its own needs the rest.

_STYLES = {"broken": "bold red", "repaired": "green", "gone": "yellow", "new": "cyan", "changed": "yellow"}


def compare(
    old: Annotated[Path, typer.Argument(help="The report.json to compare with, or its folder.")],
    new: Annotated[Path, typer.Argument(help="The report.json to judge, or its folder.")],
    as_json: JsonOption = False,
) -> None:
    """What is broken, repaired, new or gone in NEW, and which versions differ.

    Exit status 1: something that passed does not pass any more.
    """
    from rich.text import Text

    from sglang_platform.conformance.report.compare import compare_reports
    from sglang_platform.conformance.report.files import read_report

    try:
        found = compare_reports(read_report(old), read_report(new))
    except PlatformError as error:
        print_refusal(error, as_json)
        raise typer.Exit(NOT_UNDERSTOOD) from None
    if as_json:
        print_json(found.as_dict())
    else:
        for change in found.changes:
            out = Text(f"{change.kind:<9}", style=_STYLES[change.kind]) + Text(f"{change.id}: {change.text}")
            console().print(out)
        for name, (before, after) in found.versions.items():
            console().print(
                Text(f"version  {name}: {before or 'absent'} -> {after or 'absent'}", style="dim")
            )
        console().print(found.summary)
    if found.is_worse:
        raise typer.Exit(FOUND_A_PROBLEM)
