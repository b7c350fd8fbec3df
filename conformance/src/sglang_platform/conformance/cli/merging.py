"""`sglang-platform conformance merge REPORT...`: one report from those of all shards."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from sglang_platform.core.cli.output import (
    NOT_UNDERSTOOD,
    JsonOption,
    print_json,
    print_refusal,
)
from sglang_platform.core.errors import PlatformError
from sglang_platform.devtools.cli.output_file import write_text

__all__ = ["merge"]

# Imports inside functions: every `sglang-platform` command imports this file, and only its own needs the rest.


def merge(
    reports: Annotated[
        list[Path], typer.Argument(help="The report.json of every shard, or folders that hold them.")
    ],
    report: Annotated[
        Path | None,
        typer.Option(help="A folder for report.json and report.html.", show_default=False, file_okay=False),
    ] = None,
    junit: Annotated[
        Path | None, typer.Option(help="A JUnit file to write.", show_default=False, dir_okay=False)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Join the reports of all shards of a run. The verdict and the exit status are those of the run in one piece.

    Exit status 2: they are not the shards of one run.
    """
    from sglang_platform.conformance.cli.summary import print_summary
    from sglang_platform.conformance.report.files import find_reports, read_report, write_report
    from sglang_platform.conformance.report.junit import junit as as_junit
    from sglang_platform.conformance.report.merge import merged
    from sglang_platform.conformance.report.selected import exit_status

    try:
        words = shlex.join(["sglang-platform", *sys.argv[1:]])
        document = merged([read_report(path) for path in find_reports(reports)], words)
        written = write_report(document, report) if report is not None else []
        if junit is not None:
            write_text(junit, as_junit(document))
            written.append(junit)
    except PlatformError as error:
        print_refusal(error, as_json)
        raise typer.Exit(NOT_UNDERSTOOD) from None
    if as_json:
        print_json(document)
    else:
        print_summary(document, written)
    raise typer.Exit(exit_status(document))
