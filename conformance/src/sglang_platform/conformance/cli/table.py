"""`sglang-platform conformance table REPORT...`, `features` and `kits`: the pages that are made from reports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from sglang_platform.core.cli.output import (
    NOT_UNDERSTOOD,
    print_refusal,
)
from sglang_platform.core.errors import PlatformError, visible
from sglang_platform.devtools.cli.output_file import write_text

__all__ = ["features", "kits", "table"]

# Imports inside functions: every `sglang-platform` command imports this file, and only its own needs the rest.


_Reports = Annotated[list[Path], typer.Argument(help="report.json files, or folders that hold them.")]
_Output = Annotated[
    Path | None, typer.Option(help="Where to write; default: standard output.", show_default=False)
]


def table(reports: _Reports, output: _Output = None) -> None:
    """A Markdown table: platforms, devices, what each level proved, on which versions."""
    from sglang_platform.conformance.report.support_table import support_table

    _write(support_table, reports, output)


def features(reports: _Reports, output: _Output = None) -> None:
    """A Markdown table: features of SGLang, platforms and releases, from reports of the level `features`."""
    from sglang_platform.conformance.host.features.record import all_features
    from sglang_platform.conformance.report.features_page import features_page

    _write(lambda found: features_page(found, all_features()), reports, output)


def kits(
    report: Annotated[Path, typer.Argument(help="A report.json of the level `kits`, or its folder.")],
    output: _Output = None,
) -> None:
    """A page: SGLang's own tests on a platform and on SGLang's own CPU device, from a report of the level `kits`."""
    from sglang_platform.conformance.kits.baseline import recorded
    from sglang_platform.conformance.kits.table import NOT_APPLICABLE
    from sglang_platform.conformance.report.kits_page import kits_page

    def page(found: list[dict[str, Any]]) -> str:
        release = str(found[0]["environment"]["packages"].get("sglang"))
        return kits_page(found[0], NOT_APPLICABLE, recorded(release))

    _write(page, [report], output)


def _write(page: Callable[[list[dict[str, Any]]], str], reports: list[Path], output: Path | None) -> None:
    from sglang_platform.conformance.report.files import find_reports, read_report

    try:
        text = visible(page([read_report(path) for path in find_reports(reports)]))
        if output is not None:
            write_text(output, text)
    except PlatformError as error:
        print_refusal(error, as_json=False)
        raise typer.Exit(NOT_UNDERSTOOD) from None
    if output is None:
        typer.echo(text, nl=False)
