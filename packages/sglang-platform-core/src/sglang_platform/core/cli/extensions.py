"""Subcommands that other distributions bring, found by entry point: the conformance suite is one.

The entry point, in the group `sglang_platform.cli`, names a `typer.Typer`; its name is the subcommand's. Core knows no
such distribution by name.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import typer

from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.failures import explain
from sglang_platform.core.discovery.groups import COMMAND_GROUP
from sglang_platform.core.discovery.scan import EntryPointRecord

__all__ = ["add_installed"]

_NOT_UNDERSTOOD = 2


def add_installed(app: typer.Typer) -> None:
    """Add the installed subcommands. One that cannot be loaded becomes a command that says why."""
    taken = {command.name for command in app.registered_commands} | {
        group.name for group in app.registered_groups
    }
    for record in scan.records(COMMAND_GROUP):
        if record.name in taken:
            continue
        taken.add(record.name)
        try:
            module, _, attribute = record.value.partition(":")
            found: Any = getattr(importlib.import_module(module.strip()), attribute.strip())
            if not isinstance(found, typer.Typer):
                raise TypeError(f"{record.value} is no typer.Typer")
        except Exception as error:  # noqa: BLE001 - a broken extension must not take the other commands with it
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
        raise typer.Exit(_NOT_UNDERSTOOD)

    return refuse
