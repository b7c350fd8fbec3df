"""How `sglang-platform hooks check` shows its rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rich.text import Text

from sglang_platform.core.cli.page import Page
from sglang_platform.devtools.changes import OURS
from sglang_platform.devtools.hook_check.check import CheckedHook

__all__ = ["describe", "print_rows"]

_STYLES = {"exists": "green", "unknown": "yellow"}


def describe(row: CheckedHook) -> dict[str, Any]:
    """A row in JSON's types."""
    wanted = row.wanted
    return {
        "target": wanted.target,
        "verdict": row.verdict,
        "why": row.why or None,
        "defined_at": row.defined_at,
        "line": row.line,
        "moved_to": list(row.moved_to),
        "nearest": list(row.nearest),
        "notes": list(row.notes),
        "required": wanted.required,
        "plugin": wanted.plugin,
        "where": wanted.where,
        "hook": wanted.hook.name if wanted.hook else None,
        "type": wanted.hook.type.value if wanted.hook else None,
    }


def print_rows(
    out: Page, rows: list[CheckedHook], host: str, unread: tuple[str, ...], stand_ins: tuple[str, ...]
) -> None:
    """Print the rows of `hooks check`, and the places that were not examined."""
    shown = [row for row in rows if row.is_problem or not _is_ours(row)]
    for row in shown:
        target = row.wanted.target + ("" if row.wanted.required else " (optional)")
        style = _STYLES.get(row.verdict, "bold red" if row.is_problem else "yellow")
        fields = [("where", row.wanted.where), ("why", row.why), ("now", ", ".join(row.moved_to))]
        fields += [("like it", ", ".join(row.nearest[:3])), ("notes", "\n".join(row.notes))]
        out.block(Text(f"{row.verdict}: ", style=style) + Text(target), fields)
    counts = Counter(row.verdict for row in rows)
    parts = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
    out.print(Text(f"{len(rows)} hook targets in {host}{': ' + parts if parts else ''}"))
    if len(shown) < len(rows):
        out.print(
            Text(f"not shown: {len(rows) - len(shown)} of this project's own packages, without a problem")
        )
    for registration in unread:
        out.print(Text(f"not checked, its target is not in the source: {registration}", style="yellow"))
    for stand_in in stand_ins:
        out.print(
            Text(f"not checked, a module of the plugin's own in sys.modules: {stand_in}", style="yellow")
        )


def _is_ours(row: CheckedHook) -> bool:
    return any(f"({name} " in (row.wanted.plugin or "") for name in OURS)
