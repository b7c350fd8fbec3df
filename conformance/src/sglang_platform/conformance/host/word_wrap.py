"""Text that arrives in pieces, printed at once and wrapped between words."""

from __future__ import annotations

import re
from typing import IO

from sglang_platform.core.errors import visible

__all__ = ["WordWrap"]


class WordWrap:
    """Write pieces of text to `file` as lines of at most `width` columns; a longer word keeps a line of its own.

    A word is printed when its end is known. Control characters but line breaks are escaped.
    """

    def __init__(self, file: IO[str], *, width: int, indent: str = "") -> None:
        self._file, self._width, self._indent = file, width, indent
        self._column = 0
        self._word = ""

    def write(self, text: str) -> None:
        *whole, self._word = re.split(r"(?<=\s)(?=\S)", self._word + text)
        for word in whole:
            self._print(word)
        self._file.flush()

    def end(self) -> None:
        """Print the last word and close the line."""
        self._print(self._word)
        self._word = ""
        if self._column:
            self._file.write("\n")
            self._column = 0
        self._file.flush()

    def _print(self, word: str) -> None:
        text = visible(word.strip())
        if self._column and self._column + 1 + len(text) > self._width:
            self._file.write("\n")
            self._column = 0
        if text:
            before = " " if self._column else self._indent
            self._file.write(before + text)
            self._column += len(before + text)
        breaks = word.count("\n")
        if breaks:
            self._file.write("\n" * breaks)
            self._column = 0
