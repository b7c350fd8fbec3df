"""Run the checks on a platform, show what became of them, write the report."""

from __future__ import annotations

import os
import shlex
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from sglang_platform.core.cli.output import JsonOption, print_json
from sglang_platform.core.errors import PlatformError

__all__ = ["run"]

# Imports inside functions: every `sglang-platform` command imports this file, and only its own needs the rest.

_NOT_UNDERSTOOD = 2
_HOSTS = ("none", "sglang")


def run(
    context: typer.Context,
    platform: Annotated[
        str | None,
        typer.Option(
            help="The plugin to check: its entry-point name, or name=pkg.mod:Class for a class without a package. "
            "Default: $SGLANG_PLATFORM, or the only one installed.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            help="none: on the contract alone. sglang: in processes of SGLang, and in a running engine."
        ),
    ] = "none",
    level: Annotated[
        list[str] | None,
        typer.Option(
            help="A level, by number or name; may be given several times. Default: all.", show_default=False
        ),
    ] = None,
    check: Annotated[
        list[str] | None,
        typer.Option(help="The id of a check; may be given several times. Default: all.", show_default=False),
    ] = None,
    profile: Annotated[
        list[str] | None,
        typer.Option(
            help="A profile to judge by; may be given several times. Default: those that the platform claims.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seeds the cases; the report names it.")] = 0,
    report: Annotated[
        Path | None,
        typer.Option(help="A folder for report.json and report.html.", show_default=False, file_okay=False),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="The vendor's file of expected failures. Default: conformance.toml here, if there is one.",
            show_default=False,
            dir_okay=False,
        ),
    ] = None,
    patience: Annotated[
        float, typer.Option(help="Multiplies the checks' time limits, for a slow device.", min=0.01)
    ] = 1.0,
    as_json: JsonOption = False,
) -> None:
    """Check a platform plugin, and say what to do about each failure.

    Exit status: 0 conformant to all profiles judged, 1 not conformant, 3 incomplete: nothing failed, and not everything
    that the profiles require was run; 2 the command was not understood.
    """
    if context.invoked_subcommand is not None:
        return
    from sglang_platform.conformance.check import registered
    from sglang_platform.conformance.cli.progress import Progress
    from sglang_platform.conformance.cli.summary import print_summary
    from sglang_platform.conformance.expected import read_vendor_file
    from sglang_platform.conformance.level import Level
    from sglang_platform.conformance.profiles import DEFAULT, profiles
    from sglang_platform.conformance.profiles import profile as profile_named
    from sglang_platform.conformance.report.document import make_document
    from sglang_platform.conformance.report.files import write_report
    from sglang_platform.conformance.runner import Runner, Selection
    from sglang_platform.conformance.verdict import EXIT_STATUS

    try:
        if host not in _HOSTS:
            raise ValueError(f"{host!r} is no host; the hosts are {' and '.join(_HOSTS)}")
        selection = Selection(
            platform or _only_platform(),
            host=host,
            levels=tuple(Level.parse(text) for text in level or ()),
            checks=tuple(check or ()),
            profiles=tuple(profile_named(name).name for name in profile or ()),
            seed=seed,
            vendor_file=read_vendor_file(config, list(registered())),
            patience=patience,
        )
        selection.chosen()
        started = time.time()
        about = Runner(selection).describe()
        # A claim of what does not exist fails contract.declarations_are_understood.
        claimed = [name for name in about["declares"]["profiles"] if name in profiles()]
        judged = selection.profiles or claimed or [DEFAULT]
        chosen = selection.chosen({check for name in judged for check in profiles()[name].checks})
    except (ValueError, PlatformError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(_NOT_UNDERSTOOD) from None
    with Progress(chosen, quiet=as_json) as progress:
        runner = Runner(
            selection, on_start=progress.start, on_case=progress.case, on_outcome=progress.outcome
        )
        try:
            outcomes = [runner.run_one(one) for one in chosen]
        finally:
            runner.close()
    document = make_document(selection, about, outcomes, judged, started=started, command=_command())
    written = write_report(document, report) if report is not None else []
    if as_json:
        print_json(document)
    else:
        print_summary(document, written)
    raise typer.Exit(EXIT_STATUS[document["verdict"]["word"]])


def _only_platform() -> str:
    """The platform to check where none is named. Raises ValueError that lists the choices."""
    from sglang_platform.core.discovery import scan
    from sglang_platform.core.discovery.groups import PLATFORM_GROUP

    named = os.environ.get("SGLANG_PLATFORM_PLUGIN") or os.environ.get("SGLANG_PLATFORM")
    if named:
        return named
    names = sorted({record.name for record in scan.records(PLATFORM_GROUP)})
    if len(names) == 1:
        return names[0]
    if not names:
        raise ValueError(
            "no platform plugin is installed in this environment\n"
            "  why:    no distribution has an entry point in sglang.srt.platforms\n"
            "  fix:    pip install the plugin (-e . in its folder), or name a class: --platform name=pkg.mod:Class"
        )
    raise ValueError(
        f"several platform plugins are installed: name one of {', '.join(names)} with --platform"
    )


def _command() -> str:
    words: list[Any] = ["sglang-platform", *sys.argv[1:]]
    if Path(sys.argv[0]).name == "__main__.py":
        words.insert(1, "conformance")
    return shlex.join(words)
