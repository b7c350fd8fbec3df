"""What is shown at the end: the causes of failures, what was not run and why, and a table by level."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sglang_platform.conformance.cli.causes import print_causes
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.outcome import case_text
from sglang_platform.conformance.report.document import STATUSES, by_reason
from sglang_platform.conformance.report.selected import passed_selection
from sglang_platform.core.cli.output import console
from sglang_platform.core.cli.page import Page

__all__ = ["print_summary"]

_STYLES = {"conformant": "bold green", "not conformant": "bold red", "incomplete": "bold yellow"}


def print_summary(document: dict[str, Any], written: list[Path]) -> None:
    """Standard output, made for people; the JSON report is for programs."""
    from rich.text import Text

    out = console()
    outcomes = document["outcomes"]
    print_causes(out, outcomes)
    for outcome in outcomes:
        if outcome["status"] == "suite_failed":
            out.print(Text("the suite failed ", style="bold yellow") + Text(outcome["id"], style="bold"))
            for text in (outcome["why"], case_text(outcome["case"]), outcome["trace"], outcome["rerun"]):
                out.print(Text("  " + (text or "").replace("\n", "\n  ")))
    for outcome in outcomes:
        if outcome["status"] == "expected_failure":
            out.print(Text(f"expected failure {outcome['id']}: {outcome['why']}", style="yellow"))
        for one in outcome["widened"]:
            factor = f"{one['factor']:g} ({one['needed']:g} needed)"
            said = f"wider tolerance {outcome['id']}: {one['dtype']} by {factor}: {one['reason']}"
            out.print(Text(said, style="yellow"))
    reasons = by_reason(outcomes)
    if reasons:
        out.print(Text("not run, or nothing to judge:", style="bold"))
        for reason, ids in reasons.items():
            out.print(Text(f"  {reason}"), Text(f"({', '.join(ids)})", style="dim"))
    _print_levels(out, document)
    for one in document["run"]["left_out"]:
        out.print(Text(f"left out: {one['name']}, of {one['distribution']}: {one['why']}", style="yellow"))
    for one in document["run"]["models"]:
        for shape in one["shapes"]:
            if shape["left"]:
                out.print(Text(f"attention is not tried in {shape['name']}: {shape['left']}", style="yellow"))
    platform = document["platform"]
    if platform.get("device_absent"):
        out.print(Text(f"what needs the device waits for it: {platform['device_absent']}", style="yellow"))
    for path in written:
        out.print(Text(f"report: {path}", style="dim"))
    run, verdict = document["run"], document["verdict"]
    tier = ", thorough" if run["thorough"] else ""
    out.print(Text(f"{platform['name']}, seed {run['seed']}{tier}, {run['seconds']:.0f} s", style="dim"))
    selected = passed_selection(document)
    if selected:
        out.print(Text(selected, style="bold green"))
    out.print(Text(verdict["headline"], style=_STYLES[verdict["word"]]))


def _print_levels(out: Page, document: dict[str, Any]) -> None:
    shown = [
        (level, counts) for level in Level if (counts := document["levels"].get(level.label)) is not None
    ]
    statuses = [status for status in STATUSES if any(counts[status] for _, counts in shown)]
    rows = [
        [
            f"{int(level)} {level.label}",
            *(str(counts[one] or "-") for one in statuses),
            f"{counts['seconds']:.1f}",
        ]
        for level, counts in shown
    ]
    columns = ["level", *(status.replace("_", " ") for status in statuses), "seconds"]
    out.table(columns, rows, right=columns[1:])
