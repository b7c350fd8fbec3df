"""The pages as Markdown: one for each level, and one that lists them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sglang_platform.conformance.check import Check
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.pages.record import CheckRecord, record_of

__all__ = ["pages", "section"]

_MADE = "Written by `sglang-platform conformance pages`; do not edit."


def pages(checks: Iterable[Check], mistakes: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The text of each file, by its name."""
    by_level: dict[Level, list[Check]] = {}
    for check in checks:
        by_level.setdefault(check.level, []).append(check)
    found = {"index.md": _index(by_level)}
    for level, own in by_level.items():
        head = f"# {int(level)} {level.label}\n\nWhat passing this level proves: {level.proves}. {_MADE}\n"
        found[f"{level.label}.md"] = "\n".join([head, *(section(record_of(one, mistakes)) for one in own)])
    return found


def section(record: CheckRecord) -> str:
    """One check."""
    lines = [f"## {record.id.partition('.')[2]}", "", f"`{record.id}`", "", record.asks, ""]
    lines += [f"- **Why:** {record.why}"]
    lines += [f"- **Cases:** {record.cases}", f"- **Runs:** {record.runs}"]
    if record.requires:
        lines += [f"- **Asked where the platform has:** {'; '.join(record.requires)}"]
    lines += [f"- **Tolerance:** {record.tolerance}"]
    if record.mistakes:
        lines += ["- **Usual mistakes:**", *(f"    - {one}" for one in record.mistakes)]
    lines += [f"- **Fix:** {record.fix}", ""]
    return "\n".join(lines)


def _index(by_level: Mapping[Level, Sequence[Check]]) -> str:
    lines = ["# The checks", "", f"What each check asks, why, and what to do where it fails. {_MADE}", ""]
    lines += ["| level | checks | what passing it proves |", "| --- | --- | --- |"]
    for level, own in by_level.items():
        lines.append(f"| [{int(level)} {level.label}]({level.label}.md) | {len(own)} | {level.proves} |")
    lines += ["", "```{toctree}", ":hidden:", "", *(level.label for level in by_level), "```"]
    return "\n".join(lines) + "\n"
