"""`sglang-platform list`: the installed plugins; with `--explain` also how the platform is decided."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from sglang_platform.core.cli.output import (
    FOUND_A_PROBLEM,
    JsonOption,
    console,
    print_json,
    print_refusal,
    show_slow,
    show_stages,
)
from sglang_platform.core.cli.plugin_argument import DiffusionOption, PluginArgument, named_or_exit
from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.apart import DecisionApart, ask_apart
from sglang_platform.core.discovery.contract_version import stated_versions
from sglang_platform.core.discovery.groups import OWN_PLUGIN
from sglang_platform.core.discovery.kind import (
    DIFFUSION,
    KINDS,
    PLUGIN_GROUPS,
    SRT,
    PlatformKind,
    installed_plugins,
    is_used,
)
from sglang_platform.core.discovery.trace import Candidate, Trace

__all__ = ["list_plugins"]

_STYLES = {"chosen": "green", "active": "yellow", "declined": "dim", "failed": "red", "not asked": "dim"}


def list_plugins(
    plugin: PluginArgument = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Ask the platform plugins, and show how the platform is decided."),
    ] = False,
    diffusion: DiffusionOption = False,
    as_json: JsonOption = False,
) -> None:
    """The installed plugins, from metadata alone: nothing of them is imported, unless --explain asks them.

    Exit status 1: --explain found that a platform is refused. 2: the plugin named is not installed.
    """
    named = named_or_exit(plugin, as_json)
    plugins = [
        _describe(record) for record in installed_plugins() if named is None or record in named.records
    ]
    asked = [kind for kind in KINDS if explain and (diffusion or is_used(kind))]
    with show_stages(as_json):
        decisions = {kind: ask_apart(kind, "choice") for kind in asked}
    if as_json:
        document: dict[str, Any] = {"plugins": plugins}
        document["unreadable"] = [found._asdict() for found in scan.scan().unreadable]
        for kind in asked:
            name = "decision" if kind is SRT else f"{kind.runtime}_decision"
            document[name] = decisions[kind].trace.as_dict()
        print_json(document)
    else:
        hidden = [] if diffusion or is_used(DIFFUSION) else [one for one in plugins if _is_of_diffusion(one)]
        shown = [one for one in plugins if one not in hidden]
        _print_plugins(shown, [decision.trace for decision in decisions.values()])
        if count := sum(one["name"] != OWN_PLUGIN for one in hidden):
            console().print(f"and {count} for the diffusion runtime: --diffusion")
        for kind in asked:
            _print_decision(kind, decisions[kind])
        if asked:
            console().print("not looked at: the class of the platform (`sglang-platform info` imports it)")
    if any(decision.error is not None for decision in decisions.values()):
        raise typer.Exit(FOUND_A_PROBLEM)


def _describe(record: scan.EntryPointRecord) -> dict[str, Any]:
    return {
        "kind": PLUGIN_GROUPS[record.group],
        "name": record.name,
        "distribution": record.origin.distribution,
        "version": record.origin.version,
        "entry_point": record.value,
        "contract": ", ".join(stated_versions(record)) or None,
    }


def _is_of_diffusion(plugin: dict[str, Any]) -> bool:
    return plugin["kind"] in (PLUGIN_GROUPS[DIFFUSION.group], PLUGIN_GROUPS[DIFFUSION.general_group])


def _print_plugins(plugins: list[dict[str, Any]], traces: list[Trace]) -> None:
    """One row per plugin, with its answer where it was asked."""
    from rich.text import Text

    out = console()
    answers = {
        (PLUGIN_GROUPS[trace.group], one.origin.name, one.origin.distribution): one
        for trace in traces
        for one in trace.candidates
    }
    rows = []
    for plugin in plugins:
        answer = answers.pop((plugin["kind"], plugin["name"], plugin["distribution"]), None)
        distribution = " ".join(filter(None, (plugin["distribution"], plugin["version"])))
        cells = (distribution, plugin["contract"], plugin["entry_point"])
        head = f"{plugin['kind']} {plugin['name']}"
        rows.append([head, *(cell or "-" for cell in cells), *_answer(answer, bool(traces))])
    for answer in answers.values():  # a platform that a variable names has no entry point
        rows.append([f"platform {answer.origin.name}", "-", "-", answer.value, *_answer(answer, asked=True)])
    columns = ["plugin", "distribution", "contract", "entry point"]
    columns += ["answer", "why"] if traces else []
    if rows:
        out.table(columns, rows)
    else:
        out.print("no plugin is installed in this environment")
    for path, reason in scan.scan().unreadable:
        out.print(Text(f"cannot be read: {path}: {reason}", style="red"))


def _answer(candidate: Candidate | None, asked: bool) -> Iterator[Any]:
    from rich.text import Text

    if not asked:
        return
    if candidate is None:
        yield from ("-", "-")
        return
    took = "" if candidate.seconds is None else f" in {candidate.seconds * 1e3:.1f} ms"
    yield Text(candidate.outcome, style=_STYLES[candidate.outcome]) + Text(took)
    yield candidate.reason or candidate.answer or "-"


def _print_decision(kind: PlatformKind, decision: DecisionApart) -> None:
    from rich.text import Text

    out, trace = console(), decision.trace
    runtime = "" if kind is SRT else f"{kind.runtime} runtime: "
    for variable, value in trace.settings.items():
        out.print(f"{variable}={value}")
    for note in trace.notes:
        out.print(note)
    show_slow(decision)
    if decision.error is not None:
        print_refusal(decision.error, as_json=False)
    else:
        out.print(Text(f"{runtime}{trace.outcome or 'not decided yet'}", style="bold"))
