"""`sglang-platform conformance verify REPORT`: contradictions in a report, and what they leave unknown."""

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

__all__ = ["verify"]

# Imports inside functions: every `sglang-platform` command imports this file, and only its own needs the rest.


def verify(
    report: Annotated[Path, typer.Argument(help="A report.json, or the folder that holds it.")],
    rerun: Annotated[
        str | None,
        typer.Option(help="Run a share of the checks again, as `10%`, and compare.", show_default=False),
    ] = None,
    patience: Annotated[
        float, typer.Option(help="Multiplies the checks' time limits, for a slow device.", min=0.01)
    ] = 1.0,
    as_json: JsonOption = False,
) -> None:
    """Look for contradictions in a report: list of checks, sums, verdict, edits by hand, files of suite and plugin.

    Exit status: 0 none was found, 1 one was, 2 it is no report or the command was not understood. What a check answered
    is known only where --rerun runs it again. Who made the report is not known: no key signs it.
    """
    from rich.text import Text

    from sglang_platform.conformance.outcome import Outcome
    from sglang_platform.conformance.report.files import find_reports, read_report
    from sglang_platform.conformance.report.verify import problems_of, reruns

    again: list[Outcome] = []
    try:
        share = None if rerun is None else _share(rerun)
        path, *others = find_reports([report])
        if others:
            raise ValueError(
                f"{report} holds {1 + len(others)} reports, among them {path} and {others[0]}: name one"
            )
        document = read_report(path)
        problems = problems_of(document)
        if share is not None and not problems:
            problems = reruns(document, share, patience=patience, on_outcome=again.append)
    except (ValueError, PlatformError) as error:
        print_refusal(error, as_json)
        raise typer.Exit(NOT_UNDERSTOOD) from None
    if as_json:
        headline, ids = document["verdict"]["headline"], [one.id for one in again]
        print_json({"report": str(path), "headline": headline, "problems": problems, "rerun": ids})
    else:
        out = console()
        for problem in problems:
            out.print(Text(problem, style="red"))
        said = (
            f"{len(problems)} problem{'s' * (len(problems) != 1)}" if problems else "no contradiction found"
        )
        out.print(
            Text(f"{document['platform']['name']}, {document['verdict']['headline']}: {said}", style="bold")
        )
        out.print(
            Text(f"not proven: who made the report, and the answers of checks but the {len(again)} run again")
        )
    raise typer.Exit(FOUND_A_PROBLEM if problems else 0)


def _share(text: str) -> float:
    """`10%` or `0.1`. Raises ValueError."""
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise ValueError(f"--rerun takes a share of the checks, such as 10%, and not {text!r}")
    return share
