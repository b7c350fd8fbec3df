"""The report as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from sglang_platform.devtools.upgrade.rows import CouplingChange, Side, Upgrade

__all__ = ["STYLE", "change_rows", "page", "table", "whole_page"]

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #1b1f24; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .45rem .6rem; border-bottom: 1px solid #d8dee4; }
code { font: 13px/1.45 ui-monospace, monospace; overflow-wrap: anywhere; }
del { background: #ffebe9; text-decoration: none; display: block; } ins { background: #dafbe1; text-decoration: none;
display: block; } .place { color: #59636e; }
.breaks, .problem { color: #b3261e; font-weight: 600; } .look, .warning { color: #9a6700; font-weight: 600; }
.fits, .note { color: #1a7f37; font-weight: 600; } td:first-child { white-space: nowrap; }
@media (prefers-color-scheme: dark) {
body { background: #0d1117; color: #e6edf3; } th, td { border-color: #30363d; } del { background: #4b1113; }
ins { background: #0f3d1e; } .place { color: #9198a1; } .breaks, .problem { color: #ff7b72; }
.look, .warning { color: #d29922; } .fits, .note { color: #56d364; } }
"""

_TITLES = {
    "breaks": "Breaks: fails, or has no effect any more",
    "look": "Look: may mean another thing, or misses something",
    "fits": "Changed, and what is written goes with both",
}


def page(upgrade: Upgrade) -> str:
    """The page of all rows, including the places that were not examined."""
    title = f"{upgrade.plugin}: {upgrade.old} to {upgrade.new}"
    kinds = ", ".join(f"{count} {kind}" for kind, count in upgrade.looked.items()) or "none"
    parts = [
        f"<p>{sum(upgrade.looked.values())} lines that depend on SGLang were looked at: {escape(kinds)}. "
        f"{upgrade.count('breaks')} break, {upgrade.count('look')} have to be looked at, {upgrade.count('fits')} "
        f"changed and fit; {len(upgrade.unread)} places could not be read. "
        "What a function does inside is not compared.</p>"
    ]
    parts += [f"<p>{escape(note)}</p>" for note in upgrade.notes]
    for verdict, heading in _TITLES.items():
        rows = [one for one in upgrade.changes if one.verdict == verdict]
        if rows:
            parts.append(
                f"<h2>{heading}</h2>" + table(("", "what changed", "in SGLang", "write"), change_rows(rows))
            )
    if upgrade.unread:
        rows_unread = ((f"<code>{escape(where)}</code>", escape(why)) for where, why in upgrade.unread)
        parts.append("<h2>Not looked at</h2>" + table(("line", "why"), rows_unread))
    return whole_page(title, "\n".join(parts))


def change_rows(changes: Iterable[CouplingChange]) -> Iterator[tuple[str, ...]]:
    """The cells of each change."""
    for one in changes:
        lines = "<br>".join(
            f"<code class=place>{escape(str(place))}</code> <code>{escape(place.text)}</code>"
            for place in one.places[:6]
        )
        more = f"<br>and {len(one.places) - 6} more" if len(one.places) > 6 else ""
        yield (
            f'<span class="{one.verdict}">{one.verdict}</span><br>{one.kind}',
            f"<code>{escape(one.target)}</code><br>{escape(one.what)}<br>{lines}{more}",
            _side(one.old, "del") + _side(one.new, "ins"),
            escape(one.fix or ""),
        )


def _side(side: Side | None, tag: str) -> str:
    if side is None:
        return ""
    place = f"<br><code class=place>{escape(side.place)}</code>" if side.place else ""
    return f"<{tag}><code>{escape(side.text)}</code></{tag}>{place}"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """`rows`: cells that are HTML already."""
    lines = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{''.join(f'<th>{escape(one)}</th>' for one in head)}</tr>\n{lines}</table>"


def whole_page(title: str, body: str) -> str:
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>{STYLE}</style></head>\n'
        f"<body><h1>{escape(title)}</h1>\n{body}\n</body></html>\n"
    )
