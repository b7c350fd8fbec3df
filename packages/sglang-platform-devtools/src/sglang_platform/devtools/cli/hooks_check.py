"""`sglang-platform hooks check`: what another release of the host means for the hooks, told from its sources."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sglang_platform.core.cli.output import (
    FOUND_A_PROBLEM,
    NOT_UNDERSTOOD,
    JsonOption,
    console,
    print_json,
    print_refusal,
    show_stages,
)
from sglang_platform.core.cli.plugin_argument import complete
from sglang_platform.core.errors import ConfigurationError, PlatformError

if TYPE_CHECKING:
    from sglang_platform.devtools.registrations import WantedHook

__all__ = ["check"]

# Imports inside functions: every `sglang-platform` command imports this file, and only its own needs the rest.

_HOST = "sglang"


def check(
    targets: Annotated[
        list[str] | None,
        typer.Argument(help="Targets: pkg.mod:Class.method or pkg.mod.function.", show_default=False),
    ] = None,
    host: Annotated[
        str,
        typer.Option("--host", help="A wheel file, a source folder, an installed version, or 'installed'."),
    ] = "installed",
    targets_file: Annotated[
        Path | None, typer.Option("--targets", help="A file with one target per line; # starts a comment.")
    ] = None,
    plugins: Annotated[
        list[str] | None,
        typer.Option(
            "--plugin",
            help="A plugin to read for its hooks: its entry point, distribution, module, ./folder or file.",
            autocompletion=complete,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check hook targets against a release of the host by reading its sources. Nothing is imported or run.

    With no target and no plugin given: the hooks of the installed plugins, on this project's registry and on SGLang's,
    and what they write into SGLang's modules past both.

    exists: a hook takes effect. changed: the hook does not fit. bypassed: no caller reaches it. moved: another module
    defines it. missing: nothing does. unknown: the sources do not tell.

    Exit status 1: a required target is changed, bypassed, moved or missing. 2: something given cannot be read.
    """
    from sglang_platform.devtools.hook_check.check import check as check_hooks
    from sglang_platform.devtools.hook_check.table import describe, print_rows
    from sglang_platform.devtools.source.opening import open_host

    try:
        with show_stages(as_json):
            wanted, unread, stand_ins = _wanted(targets or [], targets_file, plugins or [], host)
            tops = {one.target.partition(":")[0].partition(".")[0] for one in wanted}
            packages = {_HOST} if _HOST in tops or not tops else tops
            source = open_host(host, packages)
            rows = check_hooks(wanted, source)
    except PlatformError as error:
        print_refusal(error, as_json)
        raise typer.Exit(NOT_UNDERSTOOD) from None
    if as_json:
        print_json(
            {
                "host": source.label,
                "targets": [describe(row) for row in rows],
                "unread": list(unread),
                "stand_ins": list(stand_ins),
            }
        )
    else:
        print_rows(console(), rows, source.label, unread, stand_ins)
    if any(row.is_problem for row in rows):
        raise typer.Exit(FOUND_A_PROBLEM)


def _wanted(
    targets: list[str], targets_file: Path | None, plugins: list[str], host: str
) -> tuple[list[WantedHook], tuple[str, ...], tuple[str, ...]]:
    """The hooks to check, the places that cannot be read, and the modules that stand in for others."""
    from sglang_platform.core.installed.files import file_bytes
    from sglang_platform.devtools.changes import changes_of_installed, is_ours, read_changes
    from sglang_platform.devtools.registrations import WantedHook
    from sglang_platform.devtools.source.opening import open_host
    from sglang_platform.devtools.upgrade.plugin import open_source
    from sglang_platform.devtools.upgrade.release import HOST, Release

    names = list(targets)
    release = None
    with contextlib.suppress(ConfigurationError):  # a host that is not SGLang
        release = Release(open_host(host, {HOST}))
    if targets_file is not None:
        try:
            lines = file_bytes(str(targets_file)).decode("utf-8").splitlines()
        except ValueError as error:
            raise ConfigurationError(f"{targets_file} cannot be read", why=str(error)) from None
        names += [text for line in lines if (text := line.partition("#")[0].strip())]
    found = [read_changes(open_source(where).tree, where, release) for where in plugins]
    if not names and targets_file is None and not plugins:
        installed = list(changes_of_installed(release))
        # What the adapter computes and stands in for its own tests run, on every release.
        found = [
            one._replace(unread=(), stand_ins=()) if is_ours(origin) else one for origin, one in installed
        ]
    hooks = [WantedHook(name) for name in names] + [hook for one in found for hook in one.hooks]
    stand_ins = tuple(f"{one.module} at {one.where}" for each in found for one in each.stand_ins)
    return hooks, tuple(place for one in found for place in one.unread), stand_ins
