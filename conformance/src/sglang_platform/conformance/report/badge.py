"""The verdict as a small picture (SVG) that a project shows in its README: the words of the report's headline."""

from __future__ import annotations

from typing import Any
from xml.sax.saxutils import escape

__all__ = ["badge"]

_COLOURS = {"conformant": "#17703f", "not conformant": "#b3261e", "incomplete": "#8a5a00"}
_LABEL = "sglang-platform"
_WIDTH_OF_A_LETTER = 6.6
_PADDING = 10


def badge(document: dict[str, Any]) -> str:
    """The picture's text."""
    verdict = document["verdict"]
    said = verdict["headline"]
    left, right = (round(len(text) * _WIDTH_OF_A_LETTER) + 2 * _PADDING for text in (_LABEL, said))
    style = 'fill="#fff" font-family="Verdana,Geneva,sans-serif" font-size="11"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" '
        f'aria-label="{escape(_LABEL)}: {escape(said)}">'
        f"<title>{escape(_LABEL)}: {escape(said)}</title>"
        f'<rect width="{left}" height="20" fill="#3d4554"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="{_COLOURS[verdict["word"]]}"/>'
        f'<text x="{_PADDING}" y="14" {style} textLength="{left - 2 * _PADDING}">{escape(_LABEL)}</text>'
        f'<text x="{left + _PADDING}" y="14" {style} textLength="{right - 2 * _PADDING}">{escape(said)}</text></svg>\n'
    )
