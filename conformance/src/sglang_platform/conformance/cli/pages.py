"""`sglang-platform conformance pages`: what checks ask, why, and what to do where they fail."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sglang_platform.core.cli.output import (
    NOT_UNDERSTOOD,
    print_refusal,
)
from sglang_platform.core.errors import PlatformError
from sglang_platform.devtools.cli.output_file import write_text

__all__ = ["pages"]

# Imports inside functions: every `sglang-platform` command imports this file, and only its own needs the rest.


def pages(
    checks: Annotated[
        list[str] | None, typer.Argument(help="Checks to tell of, or globs over ids. Default: all.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="A folder for a page per level. Default: standard output.", file_okay=False),
    ] = None,
    mutants: Annotated[
        Path | None,
        typer.Option(
            help="A page of mutants, whose defects are the usual mistakes. Default: those of this edition.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
) -> None:
    """What each check asks, why, its cases, its tolerance, the usual mistakes and the fix."""
    from sglang_platform.conformance.case_ids import matches
    from sglang_platform.conformance.check import registered
    from sglang_platform.conformance.pages.record import known_mistakes, mistakes_in, record_of
    from sglang_platform.conformance.pages.text import pages as as_pages
    from sglang_platform.conformance.pages.text import section
    from sglang_platform.conformance.selection import UnknownCheck, unknown_check

    known = registered()
    for name in checks or ():
        if not any(matches(name, one) for one in known):
            print_refusal(UnknownCheck(unknown_check(name, known)), as_json=False)
            raise typer.Exit(NOT_UNDERSTOOD)
    chosen = [one for one in known.values() if not checks or any(matches(name, one.id) for name in checks)]
    mistakes = mistakes_in(mutants.read_text(encoding="utf-8")) if mutants is not None else known_mistakes()
    if output is None:
        typer.echo("\n".join(section(record_of(one, mistakes)) for one in chosen), nl=False)
        return
    try:
        for name, text in as_pages(chosen, mistakes).items():
            write_text(output / name, text)
    except PlatformError as error:
        print_refusal(error, as_json=False)
        raise typer.Exit(NOT_UNDERSTOOD) from None
