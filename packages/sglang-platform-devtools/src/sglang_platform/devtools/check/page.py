"""The check as one HTML page."""

from __future__ import annotations

from html import escape

from sglang_platform.devtools.check.remark import Checked
from sglang_platform.devtools.upgrade.page import table, whole_page

__all__ = ["page"]


def page(checked: Checked) -> str:
    """The page of all remarks, including the places that were not examined."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in checked.looked.items()) or "none"
    counts = ", ".join(f"{checked.count(level)} {level}s" for level in ("problem", "warning", "note"))
    parts = [
        f"<p><strong>{escape(checked.verdict)}</strong>: {counts}. Lines that depend on SGLang: {escape(kinds)}.</p>"
    ]
    rows = (
        (
            f'<span class="{one.level}">{one.level}</span><br>{one.part}',
            f"{escape(one.what)}<br><code class=place>{escape(one.id)}</code>",
            f"<code>{escape(one.where)}</code>",
            escape(one.why or ""),
            escape(one.fix or ""),
        )
        for one in checked.remarks
    )
    if checked.remarks:
        parts.append(table(("", "what", "line", "why", "fix"), rows))
    if checked.unread:
        unread = ((f"<code>{escape(where)}</code>", escape(why)) for where, why in checked.unread)
        parts.append("<h2>Not looked at</h2>" + table(("what", "why"), unread))
    return whole_page(f"{checked.plugin} against {checked.host}", "\n".join(parts))
