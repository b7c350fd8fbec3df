"""Subcommands that other distributions bring, found by entry point: the conformance suite is one.

The entry point, in the group `sglang_platform.cli`, names a `typer.Typer`; its name is the subcommand's. Core knows no
such distribution by name.
"""

from __future__ import annotations

from collections.abc import Callable

import typer

from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.asking import resolve_obj
from sglang_platform.core.discovery.groups import COMMAND_GROUP
from sglang_platform.core.discovery.scan import EntryPointRecord
from sglang_platform.core.errors import explain

__all__ = ["add_installed"]


def add_installed(app: typer.Typer) -> None:
    """Add the installed subcommands. One that cannot be loaded becomes a command that says why."""
    taken = {one.name for one in app.registered_commands} | {two.name for two in app.registered_groups}
    for record in scan.records(COMMAND_GROUP):
        if record.name in taken:
            typer.echo(f"a subcommand is left out, since there is one of its name: {record.origin}", err=True)
            continue
        taken.add(record.name)
        try:
            found = resolve_obj(record.value.replace(" ", ""))
            if not isinstance(found, typer.Typer):
                raise TypeError(f"{record.value} is no typer.Typer")
            typer.main.get_command(found)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - a broken extension must not take the other commands with it
            app.command(
                record.name,
                help=f"Cannot be loaded ({record.origin}).",
                context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
            )(_broken(record, explain(error)))
        else:
            app.add_typer(found, name=record.name)


def _broken(record: EntryPointRecord, why: str) -> Callable[[], None]:
    def refuse() -> None:
        typer.echo(
            f"the subcommand {record.name!r} cannot be loaded\n  plugin: {record.origin}\n  why:    {why}\n"
            f"  fix:    install {record.origin.distribution} again, from where it came",
            err=True,
        )
        raise typer.Exit(2)

    return refuse
