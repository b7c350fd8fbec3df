"""`sglang-platform upgrade`: what changed for a plugin between two releases of SGLang, told from sources."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sglang_platform.core.cli.output import (
    FOUND_A_PROBLEM,
    INCOMPLETE,
    NOT_UNDERSTOOD,
    JsonOption,
    console,
    print_json,
    print_refusal,
    show_stages,
)
from sglang_platform.core.cli.plugin_argument import complete
from sglang_platform.core.errors import PlatformError
from sglang_platform.devtools.cli.output_file import as_html, write_text

__all__ = ["DownloadOption", "PluginSourceArgument", "WheelsOption", "upgrade"]

# Imports inside functions: every `sglang-platform` command imports this file, and only its own needs the rest.

_RELEASE = "a version (0.5.22), a wheel, a folder, or 'installed'"

PluginSourceArgument = Annotated[
    str,
    typer.Argument(
        help="A ./folder, a wheel, or an installed plugin: its entry point, distribution or module.",
        autocompletion=complete,
    ),
]

WheelsOption = Annotated[
    Path | None,
    typer.Option("--wheels", help="A folder of SGLang's wheels, looked in before anything is downloaded."),
]

DownloadOption = Annotated[
    bool,
    typer.Option(
        "--download/--no-download", help="Fetch the wheel of a version that is not here, by pip, once."
    ),
]


def upgrade(
    plugin: PluginSourceArgument,
    old: Annotated[str, typer.Option("--from", help=f"The release the plugin works on: {_RELEASE}.")],
    new: Annotated[
        str, typer.Option("--to", help=f"The release it is to work on: {_RELEASE}.")
    ] = "installed",
    wheels: WheelsOption = None,
    download: DownloadOption = True,
    html: Annotated[Path | None, typer.Option("--html", help="Write the report as one HTML page.")] = None,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Also what changed and fits, and every place that was not looked at."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """What changed between two releases for every line of a plugin that depends on SGLang. Nothing is imported or run.

    breaks: fails, or has no effect any more. look: may mean another thing. fits: changed, and the line goes with both.

    Exit status 1: at least one line breaks. 2: something given cannot be read. 3: none breaks, and some could not be
    looked at.
    """
    from sglang_platform.devtools.upgrade.plugin import open_source
    from sglang_platform.devtools.upgrade.report import print_upgrade, upgrade_of
    from sglang_platform.devtools.upgrade.rows import describe
    from sglang_platform.devtools.upgrade.wheels import open_release

    try:
        with show_stages(as_json):
            source = open_source(plugin)
            before, after = (open_release(one, wheels, download=download) for one in (old, new))
            found = upgrade_of(source, before, after)
        if html is not None:
            write_text(html, as_html(lambda out: print_upgrade(out, found, everything=True)))
    except PlatformError as error:
        print_refusal(error, as_json)
        raise typer.Exit(NOT_UNDERSTOOD) from None
    if as_json:
        print_json(describe(found))
    else:
        print_upgrade(console(), found, everything=everything)
    if found.count("breaks"):
        raise typer.Exit(FOUND_A_PROBLEM)
    if found.unread:
        raise typer.Exit(INCOMPLETE)
