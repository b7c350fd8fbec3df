"""`sglang-platform check`: all that can be known of a plugin without a device, for a pull request."""

from __future__ import annotations

import json
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
from sglang_platform.core.errors import PlatformError
from sglang_platform.devtools.cli.output_file import as_html, write_text
from sglang_platform.devtools.cli.upgrade import DownloadOption, PluginSourceArgument, WheelsOption

__all__ = ["check"]

# Imports inside functions: every `sglang-platform` command imports this file, and only its own needs the rest.


def check(
    plugin: PluginSourceArgument,
    host: Annotated[
        str, typer.Option("--host", help="A version (0.5.22), a wheel, a folder, or 'installed'.")
    ] = "installed",
    wheels: WheelsOption = None,
    download: DownloadOption = True,
    source_only: Annotated[
        bool, typer.Option("--source-only", help="Run nothing of the plugin, not even activate().")
    ] = False,
    allow_unread: Annotated[
        bool,
        typer.Option(
            "--allow-unread", help="Exit status 0 where all there is to say is what was not looked at."
        ),
    ] = False,
    html: Annotated[Path | None, typer.Option("--html", help="Write the report as one HTML page.")] = None,
    sarif: Annotated[
        Path | None, typer.Option("--sarif", help="Write it as SARIF 2.1.0, for code hosts.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Packaging, what `doctor` says, hooks, and every line that depends on SGLang: one command and one page.

    Exit status 0: no problem, and all was looked at. 1: a problem. 2: something given cannot be read. 3: no problem,
    and some places could not be looked at.
    """
    from sglang_platform.devtools.check.remark import describe
    from sglang_platform.devtools.check.report import checked, print_checked
    from sglang_platform.devtools.check.sarif import sarif as as_sarif
    from sglang_platform.devtools.upgrade.plugin import open_source
    from sglang_platform.devtools.upgrade.wheels import open_release

    try:
        with show_stages(as_json):
            found = checked(
                plugin,
                open_source(plugin),
                open_release(host, wheels, download=download),
                ask=not source_only,
            )
        if html is not None:
            write_text(html, as_html(lambda out: print_checked(out, found, everything=True)))
        if sarif is not None:
            write_text(sarif, json.dumps(as_sarif(found), indent=2) + "\n")
    except PlatformError as error:
        print_refusal(error, as_json)
        raise typer.Exit(NOT_UNDERSTOOD) from None
    if as_json:
        print_json(describe(found))
    else:
        print_checked(console(), found)
    if found.count("problem"):
        raise typer.Exit(FOUND_A_PROBLEM)
    if found.unread and not allow_unread:
        raise typer.Exit(INCOMPLETE)
