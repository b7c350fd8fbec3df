"""`sglang-platform conformance list`: every check, what it proves, what it requires."""

from __future__ import annotations

from typing import Annotated

import typer

from sglang_platform.core.cli.output import JsonOption, console, print_json

__all__ = ["list_checks"]

# Imports inside functions: every `sglang-platform` command imports this file, and only its own needs the rest.


def list_checks(
    level: Annotated[
        list[str] | None, typer.Option(help="A level, by number or name; may be given several times.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """All checks, with what each proves and requires. Nothing of a platform is imported."""
    from rich.table import Table
    from rich.text import Text

    from sglang_platform.conformance.check import registered
    from sglang_platform.conformance.level import Level

    try:
        levels = [Level.parse(text) for text in level or ()]
    except ValueError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    chosen = [one for one in registered().values() if not levels or one.level in levels]
    if as_json:
        print_json(
            [
                {
                    "id": one.id,
                    "level": one.level.label,
                    "proves": one.proves,
                    "requires": [requirement.name for requirement in one.requires],
                    "needs": one.needs,
                    "hosts": list(one.hosts),
                    "fix": one.fix,
                }
                for one in chosen
            ]
        )
        return
    table = Table("check", "proves", "requires")
    for one in chosen:
        table.add_row(Text(one.id), Text(one.proves), Text(", ".join(map(str, one.requires)) or "-"))
    console().print(table)
    console().print(f"{len(chosen)} checks")
