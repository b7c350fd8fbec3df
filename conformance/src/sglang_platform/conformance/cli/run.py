"""Run the checks on a platform, show what became of them, write the report."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from sglang_platform.core.cli.output import (
    NOT_UNDERSTOOD,
    JsonOption,
    print_json,
    print_refusal,
)
from sglang_platform.core.cli.plugin_argument import complete
from sglang_platform.core.discovery.named import platform_named
from sglang_platform.core.errors import PlatformError, PluginNotFound
from sglang_platform.devtools.cli.output_file import ensure_writable, write_text

__all__ = ["run"]

# Imports inside functions: every `sglang-platform` command imports this file, and only its own needs the rest.

_HOSTS = ("none", "sglang")


_Texts = list[str] | None


def run(
    context: typer.Context,
    platform: Annotated[
        str | None,
        typer.Option(
            help="The plugin to check: its entry point or distribution, or name=pkg.mod:Class for a class without a "
            "package. Default: $SGLANG_PLATFORM, or the only one installed.",
            show_default=False,
            autocompletion=complete,
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            help="none: on the contract alone. sglang: in processes of SGLang, and in a running engine."
        ),
    ] = "none",
    level: Annotated[
        _Texts,
        typer.Option(
            help="A level, by number or name; may be given several times. Default: all.", show_default=False
        ),
    ] = None,
    check: Annotated[
        _Texts,
        typer.Option(
            help="A check, or a glob over ids; in brackets over their cases: 'memory.*[*dtype=float16*]'. May be given "
            "several times. Default: all.",
            show_default=False,
        ),
    ] = None,
    expression: Annotated[
        str | None,
        typer.Option(
            "-k", help="Words of ids with and, or, not: 'attention and not fp8'.", show_default=False
        ),
    ] = None,
    last_failed: Annotated[
        Path | None,
        typer.Option(help="Only what failed in this report.", show_default=False),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            help="A part of the checks: 1/3. `conformance merge` joins the reports.", show_default=False
        ),
    ] = None,
    profile: Annotated[
        _Texts,
        typer.Option(
            help="A profile to judge by; may be given several times. Default: those that the platform claims.",
            show_default=False,
        ),
    ] = None,
    thorough: Annotated[bool, typer.Option("--thorough", help="More cases, and larger ones.")] = False,
    model: Annotated[
        list[Path] | None,
        typer.Option(
            help="The config.json of a model of yours, whose shapes are checked too; may be given several times.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seeds the cases; the report names it.")] = 0,
    report: Annotated[
        Path | None,
        typer.Option(help="A folder for report.json and report.html.", show_default=False, file_okay=False),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with the run that was cut off, from the folder of --report."),
    ] = False,
    junit: Annotated[
        Path | None, typer.Option(help="A JUnit file to write.", show_default=False, dir_okay=False)
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

    Exit status: 0 conformant to all profiles judged, or all that was selected passed (--level, --check, -k, --shard,
    --last-failed, --host none); 1 not conformant; 3 incomplete: nothing failed, and something was not run that was not
    left out by an option; 2 the command was not understood.
    """
    if context.invoked_subcommand is not None:
        return
    from sglang_platform.conformance.check import registered
    from sglang_platform.conformance.cli.sitting import Sitting
    from sglang_platform.conformance.cli.summary import print_summary
    from sglang_platform.conformance.expected import read_vendor_file
    from sglang_platform.conformance.expression import Expression
    from sglang_platform.conformance.level import Level
    from sglang_platform.conformance.profiles import profile as profile_named
    from sglang_platform.conformance.report.files import REPORT_FILES, write_report
    from sglang_platform.conformance.report.junit import junit as as_junit
    from sglang_platform.conformance.report.selected import exit_status
    from sglang_platform.conformance.selection import Selection
    from sglang_platform.conformance.shard import Shard

    try:
        if host not in _HOSTS:
            raise ValueError(f"{host!r} is no host; the hosts are {' and '.join(_HOSTS)}")
        if resume and report is None:
            raise ValueError("--resume goes on from the folder of --report: name it")
        _read_models(model or ())
        selection = Selection(
            _platform(platform or _only_platform()),
            host=host,
            levels=tuple(Level.parse(text) for text in level or ()),
            checks=(*(check or ()), *(_failed_in(last_failed) if last_failed else ())),
            expression=Expression(expression) if expression else None,
            shard=Shard.parse(shard) if shard else None,
            profiles=tuple(profile_named(name).name for name in profile or ()),
            seed=seed,
            thorough=thorough,
            models=tuple(map(str, model or ())),
            vendor_file=read_vendor_file(config, list(registered())),
            patience=patience,
        )
        selection.chosen()
        for file in (*(report / name for name in REPORT_FILES), junit) if report else (junit,):
            if file is not None:  # known now, and not after hours of checks
                ensure_writable(file)
        sitting = Sitting(selection, report, resume=resume, command=_command(), quiet=as_json)
    except (ValueError, PlatformError) as error:
        print_refusal(error, as_json)
        raise typer.Exit(NOT_UNDERSTOOD) from None
    document = sitting.run()
    written, unwritten = [], None
    try:
        written = write_report(document, report) if report is not None else []
        if junit is not None:
            write_text(junit, as_junit(document))
            written.append(junit)
    except PlatformError as error:
        unwritten = error
    if as_json:
        print_json(document)
    else:
        print_summary(document, written)
    if unwritten is not None:
        print_refusal(unwritten, as_json=False)
        raise typer.Exit(NOT_UNDERSTOOD)
    raise typer.Exit(exit_status(document))


def _read_models(paths: Sequence[Path]) -> None:
    """Raises ConfigurationError for one that cannot be read."""
    if paths:
        from sglang_platform.conformance.fixtures.model_config import shapes_of  # imports torch

        for path in paths:
            shapes_of(path)


def _failed_in(place: Path) -> list[str]:
    """The checks that failed in a report. Raises ConfigurationError, and ValueError where none did."""
    from sglang_platform.conformance.outcome import BAD
    from sglang_platform.conformance.report.files import find_reports, read_report

    failed = [
        one["id"]
        for path in find_reports([place])
        for one in read_report(path)["outcomes"]
        if one["status"] in BAD
    ]
    if not failed:
        raise ValueError(f"nothing failed in the report {place}")
    return list(dict.fromkeys(failed))


def _platform(word: str) -> str:
    """Its entry-point name, or `name=pkg.mod:Class` as given. Raises PlatformError where it names none."""
    return word if "=" in word else platform_named(word)


def _only_platform() -> str:
    """The platform to check where none is named. Raises ValueError or PluginNotFound with the choices."""
    from sglang_platform.core.discovery import scan
    from sglang_platform.core.discovery.groups import PLATFORM_GROUP

    named = os.environ.get("SGLANG_PLATFORM_PLUGIN") or os.environ.get("SGLANG_PLATFORM")
    if named:
        return named
    names = sorted({record.name for record in scan.records(PLATFORM_GROUP)})
    if len(names) == 1:
        return names[0]
    if not names:
        raise PluginNotFound(
            "no platform plugin is installed in this environment",
            why="no distribution has an entry point in sglang.srt.platforms",
            fix="pip install the plugin (-e . in its folder), or name a class: --platform name=pkg.mod:Class",
        )
    raise ValueError(
        f"several platform plugins are installed: name one of {', '.join(names)} with --platform"
    )


def _command() -> str:
    words: list[Any] = ["sglang-platform", *sys.argv[1:]]
    if Path(sys.argv[0]).name == "__main__.py":
        words.insert(1, "conformance")
    return shlex.join(words)
