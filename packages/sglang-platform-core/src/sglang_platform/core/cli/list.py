"""`sglang-platform list`: the installed plugins; with `--explain` also how the platform is decided."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sglang_platform.core.cli.output import (
    FOUND_A_PROBLEM,
    JsonOption,
    console,
    print_json,
    print_refusal,
    quiet_plugins,
)
from sglang_platform.core.discovery import current, scan
from sglang_platform.core.discovery.contract_version import stated_versions
from sglang_platform.core.discovery.groups import GENERAL_GROUP, PLATFORM_GROUP
from sglang_platform.core.errors import PlatformError

__all__ = ["list_plugins"]

_KINDS = {PLATFORM_GROUP: "platform", GENERAL_GROUP: "general"}


def list_plugins(
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Ask the platform plugins, and show how the platform is decided."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """The installed plugins, from metadata alone: nothing of them is imported, unless --explain asks them.

    Exit status 1: --explain found that the platform is refused.
    """
    plugins = [_describe(record) for group in _KINDS for record in scan.records(group)]
    error = _ask() if explain else None
    trace = current.trace()
    if as_json:
        document: dict[str, Any] = {"plugins": plugins}
        document["unreadable"] = [found._asdict() for found in scan.scan().unreadable]
        if explain:
            document["decision"] = trace.as_dict() if trace else None
        print_json(document)
    else:
        _print_table(plugins)
        if explain and trace:
            console().print(trace)
        if error is not None:
            print_refusal(error, as_json=False)
    if error is not None:
        raise typer.Exit(FOUND_A_PROBLEM)


def _describe(record: scan.EntryPointRecord) -> dict[str, Any]:
    return {
        "kind": _KINDS[record.group],
        "name": record.name,
        "distribution": record.origin.distribution,
        "version": record.origin.version,
        "entry_point": record.value,
        "contract": ", ".join(stated_versions(record)) or None,
    }


def _ask() -> PlatformError | None:
    try:
        with quiet_plugins():
            current.choice()
    except PlatformError as error:
        return error
    return None


def _print_table(plugins: list[dict[str, Any]]) -> None:
    from rich.table import Table
    from rich.text import Text

    if not plugins:
        console().print("no plugin is installed in this environment")
        return
    table = Table("kind", "name", "distribution", "version", "contract", "entry point")
    for plugin in plugins:
        columns = ("kind", "name", "distribution", "version", "contract", "entry_point")
        table.add_row(*(Text(plugin[column] or "-") for column in columns))
    console().print(table)
    for path, reason in scan.scan().unreadable:
        console().print(Text(f"cannot be read: {path}: {reason}", style="red"))
