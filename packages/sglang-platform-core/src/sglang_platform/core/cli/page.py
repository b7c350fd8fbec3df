"""The text output of every command: as wide as the terminal, 80 columns elsewhere; COLUMNS overrides both.

Lines are broken at spaces only, so that a long path or name stays in one piece.
"""

from __future__ import annotations

import io
import itertools
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from rich.text import Text

from sglang_platform.core.errors import visible

__all__ = ["Cell", "Page"]

Cell = str | Text

_ELSEWHERE = 80
_NARROWEST = 20
_RECORDED = 140
"""Columns."""

_GAP = "  "
_BELOW = 4
"""Columns before a text that stands below its label."""


class Page(Console):
    """Standard output or standard error; names of files and plugins are text, whatever characters they have.

    A paragraph or a block is one write: no line of another thread stands within it.
    """

    def __init__(self, *, stderr: bool = False, record: bool = False) -> None:
        """`record`: print nowhere, and keep what is printed for `export_html`."""
        super().__init__(
            stderr=stderr,
            file=io.StringIO() if record else None,
            record=record,
            highlight=False,
            markup=False,
            emoji=False,
            width=_RECORDED if record else _width(stderr),
        )

    def print(self, *objects: Any, **options: Any) -> None:
        """As rich prints; several objects are one paragraph. `style`: of the whole."""
        text = Text(" ").join(_text(one) for one in objects)
        text.style = options.get("style", text.style)
        with self:
            for line in text.split("\n", allow_blank=True):
                leading = len(line.plain) - len(line.plain.lstrip(" "))
                self._hanging(Text(), line, leading + 2)

    def render(self, renderable: Any, options: Any = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))

    def block(self, head: Cell, fields: Iterable[tuple[str, Cell | None]], *, least: int = 0) -> None:
        """A heading and its fields below it, those without a text left out. `least`: columns of the labels."""
        shown = [(f"{label}:", _text(text)) for label, text in fields if text]
        width = max((least, *(len(label) for label, _ in shown)))
        with self:
            self._hanging(Text(), _text(head), 2)
            for label, text in shown:
                self._hanging(Text(f"  {label:<{width}} "), text, width + 3)

    def pairs(self, pairs: Iterable[tuple[str, Cell]]) -> None:
        """A label and a text per line."""
        shown = [(label, _text(text)) for label, text in pairs]
        width = max((len(label) for label, _ in shown), default=0)
        for label, text in shown:
            self._hanging(Text(f"{label:<{width}}{_GAP}", style="bold"), text, width + len(_GAP))

    def table(
        self, columns: Sequence[str], rows: Sequence[Sequence[Cell]], right: Collection[str] = ()
    ) -> None:
        """A table if it fits, else a block per row, headed by the first column, without the cells that are `-`."""
        cells = [[_text(cell) for cell in row] for row in rows]
        heads = [Text(column, style="bold") for column in columns]
        widths = [
            max(cell_len(line) for row in (heads, *cells) for line in row[index].plain.split("\n"))
            for index in range(len(columns))
        ]
        if sum(widths) + len(_GAP) * (len(widths) - 1) > self.width:
            for head, *rest in cells:
                fields = zip(columns[1:], rest, strict=True)
                self.block(head, [(label, cell) for label, cell in fields if cell.plain != "-"])
            return
        for row in (heads, *cells):
            lines = itertools.zip_longest(
                *(cell.split("\n", allow_blank=True) for cell in row), fillvalue=Text()
            )
            for line in lines:
                padded = [
                    _padded(cell, width, right=column in right)
                    for cell, width, column in zip(line, widths, columns, strict=True)
                ]
                self._line(Text(_GAP).join(padded))

    def _hanging(self, first: Text, body: Text, indent: int) -> None:
        """`body` behind `first`, its further lines by so many columns to the right."""
        if first.plain and indent > self.width // 2:  # too narrow for both beside each other
            self._line(first)
            first, indent = Text(" " * _BELOW), _BELOW
        room = self.width - indent if first.plain else self.width  # a heading begins at the margin
        for index, line in enumerate(_wrapped(body, room, 0 if first.plain else indent)):
            self._line(Text.assemble(" " * indent if index else first, line))

    def _line(self, text: Text) -> None:
        text.rstrip()
        super().print(text, soft_wrap=True)


def _text(value: Any) -> Text:
    text = value.copy() if isinstance(value, Text) else Text(str(value))
    text.expand_tabs(8)
    return text


def _padded(cell: Text, width: int, *, right: bool) -> Text:
    space = " " * (width - cell.cell_len)
    return Text.assemble(space, cell) if right else Text.assemble(cell, space)


def _wrapped(text: Text, width: int, indent: int) -> Iterator[Text]:
    """The lines of a text, each up to `width` columns, broken at spaces; all but the first `indent` columns less."""
    room = width
    for line in text.split("\n", allow_blank=True):
        begin, breaks = 0, []
        for word in re.finditer(r"\S+", line.plain):
            is_first = not line.plain[begin : word.start()].strip()
            if not is_first and cell_len(line.plain[begin : word.end()]) > room:
                breaks.append(word.start())
                begin, room = word.start(), width - indent
        yield from line.divide(breaks)
        room = width - indent


def _width(stderr: bool) -> int | None:
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns):
        return max(int(columns), _NARROWEST)
    return None if (sys.stderr if stderr else sys.stdout).isatty() else _ELSEWHERE
