"""`sglang-platform doctor`: what is wrong with the installed plugins and the variables, each with its fix."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sglang_platform.core.cli.output import (
    FOUND_A_PROBLEM,
    JsonOption,
    console,
    print_json,
    quiet_plugins,
    show_stages,
)
from sglang_platform.core.cli.plugin_argument import PluginArgument, named_or_exit

if TYPE_CHECKING:
    from sglang_platform.core.discovery.apart import Depth
    from sglang_platform.core.doctor.finding import Finding

__all__ = ["SCHEMA", "doctor"]

# Imports inside functions: every `sglang-platform` command imports this file, and only its own needs the rest.

SCHEMA = 1
"""The form of the `--json` document; raised where a program that reads it would have to change."""

_STYLES = {"problem": "bold red", "warning": "yellow", "note": "dim"}

_LEFT_OUT = {
    "choice": "whether the platform's class can be imported and its object be made",
    "class": "whether the platform's object can be made",
    "object": None,
}

SourceOption = Annotated[
    bool,
    typer.Option("--source-only", help="Never start SGLang, also not for a platform on its own classes."),
]


ImportOption = Annotated[
    bool,
    typer.Option("--import-class", help="With --source-only: import the platform's class all the same."),
]


def doctor(
    plugin: PluginArgument = None,
    source_only: SourceOption = False,
    import_class: ImportOption = False,
    as_json: JsonOption = False,
) -> None:
    """Examine metadata, variables, versions, platform classes and hook targets, and ask the platform plugins.

    Reads sources, and makes the platform's object in a process of its own, as a launch does. A platform that stands on
    SGLang's own classes is looked at in a running SGLang, in a process of its own, which takes ten seconds or more.

    Exit status 1: at least one problem was found; warnings and notes alone give 0. 2: the plugin named is not
    installed.
    """
    from sglang_platform.core.doctor.examination import examine_everything
    from sglang_platform.core.doctor.finding import describe

    named = named_or_exit(plugin, as_json)
    gc.disable()  # syntax trees are many objects and no garbage
    with quiet_plugins(), show_stages(as_json):
        depth: Depth = "object" if not source_only else "class" if import_class else "choice"
        findings = examine_everything(start_host=not source_only, depth=depth)
    if named is not None:
        findings = [
            one for one in findings if one.plugin is None or one.plugin.distribution == named.distribution
        ]
    left_out = _LEFT_OUT[depth]
    if as_json:
        document: dict[str, Any] = {"schema": SCHEMA, "findings": [describe(finding) for finding in findings]}
        if left_out is not None:
            document["not_looked_at"] = left_out
        print_json(document)
    else:
        _print(findings, left_out)
    if any(finding.severity == "problem" for finding in findings):
        raise typer.Exit(FOUND_A_PROBLEM)


def _print(findings: list[Finding], left_out: str | None) -> None:
    from rich.text import Text

    from sglang_platform.core.doctor.finding import NOT_LOOKED_AT

    out = console()
    for finding in findings:
        head = Text(f"{finding.severity}: ", style=_STYLES[finding.severity]) + Text(finding.what)
        plugin = str(finding.plugin) if finding.plugin is not None else None
        fields = (("plugin", plugin), ("where", finding.where), ("why", finding.why), ("fix", finding.fix))
        out.block(head + Text(f" [{finding.id}]", style="dim"), fields, least=len("plugin:"))
    problems = sum(finding.severity == "problem" for finding in findings)
    unseen = sum(finding.id in NOT_LOOKED_AT for finding in findings)
    count = f"{problems} problem{'s' * (problems > 1)}" if problems else "no problem"
    notes = "1 note says" if unseen == 1 else f"{unseen} notes say"
    if left_out:
        out.print(f"not looked at: {left_out} (`sglang-platform info` does)", highlight=False)
    out.print("not looked at: the plugins' project files (`sglang-platform check` does)", highlight=False)
    out.print("What SGLang itself still assumes of CUDA: sglang-platform host assumptions")
    out.print(f"{count} found" + (f" in what was looked at; {notes} what was not" if unseen else ""))
