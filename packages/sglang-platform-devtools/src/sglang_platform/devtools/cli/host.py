"""`sglang-platform host`: what a release of SGLang says of itself, told from its sources."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from sglang_platform.core.cli.output import (
    INCOMPLETE,
    NOT_UNDERSTOOD,
    JsonOption,
    console,
    print_json,
    print_refusal,
    show_stages,
)
from sglang_platform.core.errors import ConfigurationError, PlatformError
from sglang_platform.devtools.cli.output_file import write_text
from sglang_platform.devtools.cli.upgrade import DownloadOption, WheelsOption

__all__ = ["host"]

# Imports inside functions: every `sglang-platform` command imports this file, and only its own needs the rest.

host = typer.Typer(
    help="What a release of SGLang says of itself, told from its sources.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@host.callback()
def _group() -> None:
    """A group of subcommands."""


@host.command("ops")
def ops(
    where: Annotated[
        str,
        typer.Option("--host", help="A wheel file, a source folder, an installed version, or 'installed'."),
    ] = "installed",
    as_json: JsonOption = False,
) -> None:
    """The fused ops that a platform can serve, by the names under which a forward is registered.

    Nothing of SGLang is imported or run. Exit status 2: what is given cannot be read. 3: some of its modules cannot.
    """
    from sglang_platform.core.ops.fused_op import contract_ops
    from sglang_platform.core.sglang.versions import NEWEST, facts_for
    from sglang_platform.devtools.assumptions.survey import version_of
    from sglang_platform.devtools.op_classes import op_classes
    from sglang_platform.devtools.source.opening import open_host

    try:
        with show_stages(as_json):
            tree = open_host(where, {"sglang"})
            found = op_classes(tree, facts_for(version_of(tree.label) or NEWEST).op_class)
    except PlatformError as error:
        print_refusal(error, as_json)
        raise typer.Exit(NOT_UNDERSTOOD) from None
    rows = [
        {**found[name]._asdict(), "contract": getattr(contract_ops().get(name), "op", None)}
        for name in sorted(found)
    ]
    unread = tree.not_read()
    if as_json:
        print_json({"host": tree.label, "ops": rows, "not_looked_at": unread})
    else:
        out = console()
        out.print(f"{tree.label}: {len(rows)} fused ops")
        own = "has a forward of its own: none is asked for"
        notes = (own if row["own_forward"] else row["contract"] or "-" for row in rows)
        cells = [[row["name"], row["module"], note] for row, note in zip(rows, notes, strict=True)]
        out.table(["op", "module", "contract"], cells)
        for why in unread:
            out.print(f"not looked at: {why}")
    if unread:
        raise typer.Exit(INCOMPLETE)


@host.command("assumptions")
def assumptions(
    hosts: Annotated[
        list[str] | None,
        typer.Option(
            "--host", help="A version (0.5.22), a wheel, a folder, or 'installed'; may be given again."
        ),
    ] = None,
    wheels: WheelsOption = None,
    download: DownloadOption = True,
    feature: Annotated[str | None, typer.Option("--feature", help="One feature only, e.g. lora.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Also each place that is not gated.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Every place in SGLang's source that takes CUDA for granted or asks for it, by feature.

    Nothing of SGLang is imported or run.

    Exit status 2: something given cannot be read.
    """
    from sglang_platform.devtools.assumptions.survey import survey_of
    from sglang_platform.devtools.assumptions.table import chosen, describe_survey, print_survey
    from sglang_platform.devtools.upgrade.wheels import open_release

    try:
        surveys = []
        for where in hosts or ["installed"]:
            with show_stages(as_json):
                survey = survey_of(open_release(where, wheels, download=download).tree)
            surveys.append(survey)
            sites = chosen(survey.sites, feature)
            if not as_json:
                print_survey(console(), survey, sites, every=every)
    except PlatformError as error:
        print_refusal(error, as_json)
        raise typer.Exit(NOT_UNDERSTOOD) from None
    if as_json:
        print_json({"hosts": [describe_survey(one, chosen(one.sites, feature)) for one in surveys]})


@host.command("requirements")
def requirements(
    where: Annotated[
        str | None,
        typer.Option(
            "--host",
            help="A version (0.5.22), a wheel, a checkout, or 'installed'; by default the newest one served.",
        ),
    ] = None,
    device: Annotated[
        str,
        typer.Option(
            "--device", help="none, cuda, rocm, or the name of a device that has a torch of its own."
        ),
    ] = "none",
    extras: Annotated[
        list[str] | None,
        typer.Option("--extra", help="An extra of SGLang, e.g. diffusion; may be given again."),
    ] = None,
    without: Annotated[
        list[str] | None, typer.Option("--without", help="A package to leave out; may be given again.")
    ] = None,
    wheels: WheelsOption = None,
    download: DownloadOption = True,
    output: Annotated[Path | None, typer.Option("--output", help="Write the file there.")] = None,
    as_json: JsonOption = False,
) -> None:
    """A requirements file for SGLang without what the device cannot use, from the metadata of the release.

    SGLang's own list asks for CUDA packages, several gigabytes, on every machine.

    Exit status 2: something given cannot be read, or the release is not here and cannot be fetched.
    """
    from sglang_platform.core.contract.drift import NEWEST
    from sglang_platform.core.spelling import nearest
    from sglang_platform.devtools.requirements.page import describe_selection, requirements_file
    from sglang_platform.devtools.requirements.release import metadata_of
    from sglang_platform.devtools.requirements.selection import CUDA, NONE, ROCM, select
    from sglang_platform.devtools.upgrade.wheels import locate

    try:
        if not re.fullmatch(r"\w[\w.-]*", device):
            raise ConfigurationError(
                f"{device!r} is no name of a device", fix="give none, cuda, rocm or a name"
            )
        with show_stages(as_json):
            metadata = metadata_of(locate(where or NEWEST, wheels, download=download))
        selection = select(metadata.requirements, device, extras or [], without or [])
        text = requirements_file(selection, device, metadata.version)
        if output is not None:
            write_text(output, text)
    except PlatformError as error:
        print_refusal(error, as_json)
        raise typer.Exit(NOT_UNDERSTOOD) from None
    likely = None if device in (NONE, CUDA, ROCM) else nearest(device, (CUDA, ROCM))
    if likely:
        typer.echo(
            f"{device!r} is taken for a device with a torch of its own; did you mean {likely!r}?", err=True
        )
    if as_json:
        print_json(describe_selection(selection, device, metadata.version))
    elif output is None:
        typer.echo(text, nl=False)
