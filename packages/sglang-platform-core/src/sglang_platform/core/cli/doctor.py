"""`sglang-platform doctor`: what is wrong with the installed plugins and the variables, each with its fix."""

from __future__ import annotations

import typer

from sglang_platform.core.cli.output import FOUND_A_PROBLEM, JsonOption, console, print_json, quiet_plugins
from sglang_platform.core.discovery.diagnosis import Finding, examine

__all__ = ["doctor"]

_STYLES = {"problem": "bold red", "warning": "yellow", "note": "dim"}


def doctor(as_json: JsonOption = False) -> None:
    """Examine metadata, variables and versions, and ask the platform plugins. Imports neither torch nor sglang.

    Exit status 1: at least one problem was found; warnings and notes alone give 0.
    """
    with quiet_plugins():
        findings = examine()
    if as_json:
        print_json({"findings": [_describe(finding) for finding in findings]})
    else:
        _print(findings)
    if any(finding.level == "problem" for finding in findings):
        raise typer.Exit(FOUND_A_PROBLEM)


def _describe(finding: Finding) -> dict[str, object]:
    plugin = finding.plugin._asdict() if finding.plugin else None
    return {**finding._asdict(), "plugin": plugin}


def _print(findings: list[Finding]) -> None:
    from rich.text import Text

    out = console()
    for finding in findings:
        out.print(Text(f"{finding.level}: ", style=_STYLES[finding.level]) + Text(finding.what))
        for label, text in (("plugin", finding.plugin), ("why", finding.why), ("fix", finding.fix)):
            if text:
                body = str(text).replace("\n", "\n          ")
                out.print(Text(f"  {label + ':':<7} {body}"))
    problems = sum(finding.level == "problem" for finding in findings)
    out.print("no problem found" if not problems else f"{problems} problem{'s' * (problems > 1)} found")
