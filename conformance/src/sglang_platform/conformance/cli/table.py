"""`sglang-platform conformance table REPORT...`: the page of supported hardware, from reports."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sglang_platform.core.errors import PlatformError

__all__ = ["table"]

# Imports inside functions: every `sglang-platform` command imports this file, and only its own needs the rest.


def table(
    reports: Annotated[list[Path], typer.Argument(help="report.json files, or folders that hold them.")],
    output: Annotated[
        Path | None, typer.Option(help="Where to write; default: standard output.", show_default=False)
    ] = None,
) -> None:
    """A Markdown table: platforms, devices, what each level proved, on which versions."""
    from sglang_platform.conformance.report.files import find_reports, read_report
    from sglang_platform.conformance.report.support_table import support_table

    try:
        text = support_table([read_report(path) for path in find_reports(reports)])
    except PlatformError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    if output is None:
        typer.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")
