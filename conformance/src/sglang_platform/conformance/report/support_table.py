"""The page of supported hardware: one row per report, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sglang_platform.conformance.level import Level
from sglang_platform.conformance.outcome import BAD
from sglang_platform.conformance.report.document import by_reason

__all__ = ["support_table"]

_NOT_JUDGED = ("not_run", "not_applicable", "seconds")
_HEAD = """# Supported hardware

Generated from conformance reports by `sglang-platform conformance table`; do not edit. A cell says how many checks of
that level passed, of those that apply; what was not run is listed below, with the reason. A platform whose device was
not on the machine is not proven on hardware: what passed is what can be checked without it.

"""


def support_table(reports: Sequence[dict[str, Any]]) -> str:
    """The page's text."""
    rows = sorted(reports, key=lambda report: (report["platform"]["name"], report["host"]))
    columns = ["platform", "device", "host", *(f"{int(level)} {level.label}" for level in Level), "verdict"]
    lines = [_row(columns), _row(["---"] * len(columns))]
    lines += [_row(_cells(report)) for report in rows]
    return _HEAD + "\n".join([*lines, "", *_details(rows)]) + "\n"


def _cells(report: dict[str, Any]) -> list[str]:
    platform = report["platform"]
    device = (
        "not on this machine: not proven on hardware"
        if platform["device_absent"]
        else platform["device"] or "?"
    )
    cells = [platform["name"], device, _host(report)]
    for level in Level:
        counts = report["levels"].get(level.label)
        applies = sum(counts[status] for status in counts if status not in _NOT_JUDGED) if counts else 0
        assert counts is None or counts["passed"] <= applies
        cells.append(f"{counts['passed']}/{applies}" if applies and counts else "not run")
    return [*cells, report["verdict"]["headline"]]


def _details(reports: Sequence[dict[str, Any]]) -> list[str]:
    lines: list[str] = []
    for report in reports:
        platform, declares = report["platform"], report["declares"]
        packages = report["environment"]["packages"]
        versions = ", ".join(f"{name} {version}" for name, version in packages.items() if version)
        lines += [f"## {platform['name']}, host {_host(report)}", ""]
        lines += [f"- {report['run']['started'][:10]}, {report['environment']['processor']}: {versions}"]
        for name, values in declares.items():
            if name != "origin" and values:
                lines.append(f"- {name.replace('_', ' ')}: {', '.join(map(str, values))}")
        for outcome in report["outcomes"]:
            if outcome["status"] in BAD or outcome["status"] == "suite_failed":
                lines.append(f"- {outcome['status']}: `{outcome['id']}`: {_one_line(outcome)}")
            if outcome["status"] == "expected_failure":
                lines.append(f"- known: `{outcome['id']}`: {outcome['why']}")
        for reason, ids in by_reason(report["outcomes"]).items():
            lines.append(f"- nothing seen, {reason}: {', '.join(f'`{name}`' for name in ids)}")
        lines.append("")
    return lines[:-1]


def _one_line(outcome: dict[str, Any]) -> str:
    return (outcome["what"] or outcome["why"] or "").splitlines()[0]


def _host(report: dict[str, Any]) -> str:
    if report["host"] == "none":
        return "none"
    return f"SGLang {report['environment']['packages'].get('sglang')}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"
