"""What is shown at the end: each failure with its case and its fix, what was not run and why, and a table by level."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from sglang_platform.conformance.level import Level
from sglang_platform.conformance.outcome import case_text
from sglang_platform.conformance.report.document import STATUSES, by_cause, by_reason, other_fixes
from sglang_platform.conformance.report.selected import passed_selection
from sglang_platform.core.cli.output import console
from sglang_platform.core.cli.page import Page

__all__ = ["print_summary"]

_CASES_SHOWN = 5
_STYLES = {"conformant": "bold green", "not conformant": "bold red", "incomplete": "bold yellow"}


def print_summary(document: dict[str, Any], written: list[Path]) -> None:
    """Standard output, made for people; the JSON report is for programs."""
    from rich.text import Text

    out = console()
    outcomes = document["outcomes"]
    for outcome, others in by_cause(outcomes):
        _print_failure(out, outcome, others)
    for outcome in outcomes:
        if outcome["status"] == "suite_failed":
            out.print(Text("the suite failed ", style="bold yellow") + Text(outcome["id"], style="bold"))
            for text in (outcome["why"], case_text(outcome["case"]), outcome["trace"], outcome["rerun"]):
                out.print(Text("  " + (text or "").replace("\n", "\n  ")))
    blocked = Counter(outcome["why"] for outcome in outcomes if outcome["status"] == "blocked")
    for why, count in blocked.items():
        out.print(Text(f"{count} checks could not be run: {why}", style="bold red"))
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


def _print_failure(out: Page, outcome: dict[str, Any], others: list[dict[str, Any]]) -> None:
    from rich.text import Text

    head = Text(f"{outcome['status'].replace('_', ' ')} ", style="bold red") + Text(
        outcome["id"], style="bold"
    )
    out.print(head)
    lines = [("proves", outcome["proves"]), ("what", outcome["what"]), ("case", case_text(outcome["case"]))]
    lines += [
        ("cases", _cases(outcome)),
        ("where", outcome["trace"]),
        ("fix", outcome["fix"]),
        ("same in", ", ".join(one["id"] for one in others)),
    ]
    lines += [("or fix", f"{fix} ({', '.join(ids)})") for fix, ids in other_fixes(outcome, others).items()]
    lines += [("again", outcome["rerun"]), ("page", outcome.get("page"))]
    fields = [
        (label, Text(text, style="green" if label.endswith("fix") else "default") if text else None)
        for label, text in lines
    ]
    out.block(head, fields, least=len("or fix:"))


def _cases(outcome: dict[str, Any]) -> str:
    """How many cases fail, and the smallest of them by their names."""
    ids = [one["id"] for one in outcome["failing"]]
    if len(ids) < 2:
        return ""
    rest = [f"and {len(ids) - _CASES_SHOWN} more, in the report"] if len(ids) > _CASES_SHOWN else []
    return "\n".join([f"{len(ids)} of {max(outcome['cases'], len(ids))} fail:", *ids[:_CASES_SHOWN], *rest])


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
