"""`sglang-platform conformance list`: every check, what it proves, what it requires."""

from __future__ import annotations

from typing import Annotated

import typer

from sglang_platform.core.cli.output import (
    NOT_UNDERSTOOD,
    JsonOption,
    console,
    print_json,
    print_refusal,
)

__all__ = ["list_checks"]

# Imports inside functions: every `sglang-platform` command imports this file, and only its own needs the rest.


def list_checks(
    level: Annotated[
        list[str] | None, typer.Option(help="A level, by number or name; may be given several times.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """All checks, with what each proves and requires. Nothing of a platform is imported."""
    from sglang_platform.conformance.check import registered
    from sglang_platform.conformance.level import Level

    try:
        levels = [Level.parse(text) for text in level or ()]
    except ValueError as error:
        print_refusal(error, as_json)
        raise typer.Exit(NOT_UNDERSTOOD) from None
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
    rows = [(one.id, one.proves, ", ".join(map(str, one.requires)) or "-") for one in chosen]
    console().table(("check", "proves", "requires"), rows)
    console().print(f"{len(chosen)} checks")
