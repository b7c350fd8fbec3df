"""How `sglang-platform hooks check` shows its rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

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
    out: Console, rows: list[CheckedHook], host: str, unread: tuple[str, ...], stand_ins: tuple[str, ...]
) -> None:
    """Print the table of `hooks check`, and the places that were not examined."""
    shown = [row for row in rows if row.is_problem or not _is_ours(row)]
    if shown:
        table = Table(*(Column(name, overflow="fold") for name in ("verdict", "target", "what is known")))
        for row in shown:
            target = row.wanted.target + ("" if row.wanted.required else " (optional)")
            place = Text(f"\n{row.wanted.where}", style="dim") if row.wanted.where else Text("")
            style = _STYLES.get(row.verdict, "bold red" if row.is_problem else "yellow")
            table.add_row(Text(row.verdict, style=style), Text(target) + place, Text(_known(row)))
        out.print(table)
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


def _known(row: CheckedHook) -> str:
    lines = [row.why] if row.why else []
    lines += [f"now {home}" for home in row.moved_to]
    lines += [f"like it: {', '.join(row.nearest[:3])}"] if row.nearest else []
    return "\n".join((*lines, *row.notes))
