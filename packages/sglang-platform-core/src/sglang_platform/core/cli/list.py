"""`sglang-platform list`: the installed plugins; with `--explain` also how the platform is decided."""

from __future__ import annotations

import os
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
from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.contract_version import stated_versions
from sglang_platform.core.discovery.kind import KINDS, PLUGIN_GROUPS, SRT, PlatformKind, installed_plugins
from sglang_platform.core.discovery.lazy import lazy_platform
from sglang_platform.core.discovery.trace import Trace
from sglang_platform.core.errors import PlatformError

__all__ = ["list_plugins"]


def list_plugins(
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Ask the platform plugins, and show how the platform is decided."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """The installed plugins, from metadata alone: nothing of them is imported, unless --explain asks them.

    Exit status 1: --explain found that a platform is refused.
    """
    plugins = [_describe(record) for record in installed_plugins()]
    # Where nothing is installed for the diffusion runtime, and none is named, there is nothing to explain.
    asked = [kind for kind in KINDS if explain and (kind is SRT or _is_concerned(kind))]
    errors = {kind.runtime: error for kind in asked if (error := _ask(kind)) is not None}
    traces: dict[str, Trace | None] = {kind.runtime: lazy_platform(kind)[1].trace for kind in asked}
    if as_json:
        document: dict[str, Any] = {"plugins": plugins}
        document["unreadable"] = [found._asdict() for found in scan.scan().unreadable]
        for kind in asked:
            trace = traces[kind.runtime]
            name = "decision" if kind is SRT else f"{kind.runtime}_decision"
            document[name] = trace.as_dict() if trace else None
        print_json(document)
    else:
        _print_table(plugins)
        for kind in asked:
            if kind is not SRT:
                console().print(f"the {kind.runtime} runtime:", style="bold")
            if (trace := traces[kind.runtime]) is not None:
                console().print(trace)
            if kind.runtime in errors:
                print_refusal(errors[kind.runtime], as_json=False)
    if errors:
        raise typer.Exit(FOUND_A_PROBLEM)


def _is_concerned(kind: PlatformKind) -> bool:
    return bool(scan.records(kind.group)) or kind.variable in os.environ


def _describe(record: scan.EntryPointRecord) -> dict[str, Any]:
    return {
        "kind": PLUGIN_GROUPS[record.group],
        "name": record.name,
        "distribution": record.origin.distribution,
        "version": record.origin.version,
        "entry_point": record.value,
        "contract": ", ".join(stated_versions(record)) or None,
    }


def _ask(kind: PlatformKind) -> PlatformError | None:
    try:
        with quiet_plugins():
            lazy_platform(kind)[1].choose()
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
