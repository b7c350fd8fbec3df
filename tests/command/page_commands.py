"""The commands on the pages that people read: fenced `sh` and `console` blocks, and commands in a line of text."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["PAGES", "REPOSITORY", "PageCommand", "page_commands"]

REPOSITORY = Path(__file__).parents[2]

PAGES = sorted(
    [
        REPOSITORY / "README.md",
        REPOSITORY / "CONTRIBUTING.md",
        REPOSITORY / "conformance" / "README.md",
        *(REPOSITORY / "docs").glob("*.md"),
        *(REPOSITORY / "packages").glob("*/README.md"),
    ]
)

_PROGRAMS = ("sglang-platform", "nox", "python", "pytest", "pre-commit")
"""Commands in a line of text begin with one of these and a word."""

_WORD = r"[a-z.\-][\w.\-:/]*"


class PageCommand(NamedTuple):
    """One command of a page. `words`: without its variables and its comment."""

    page: str
    line: int
    text: str
    variables: dict[str, str]
    words: tuple[str, ...]
    fenced: bool

    @property
    def program(self) -> str:
        return self.words[0]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"


def page_commands() -> Iterator[PageCommand]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        name = page.relative_to(REPOSITORY).as_posix()
        fences = list(re.finditer(r"^```(\w*)[^\n]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
        for block in fences:
            if block[1] in ("sh", "bash", "shell", "console"):
                first = text.count("\n", 0, block.start(2)) + 1
                yield from _of_block(name, first, block[2], is_console=block[1] == "console")
        prose = re.sub(r"^```.*?^```", lambda found: "\n" * found[0].count("\n"), text, flags=re.M | re.S)
        for found in re.finditer(
            r"`((?:[A-Z_]+=\S+ )?(?:" + "|".join(_PROGRAMS) + rf") {_WORD}[^`]*)`", prose
        ):
            line = prose.count("\n", 0, found.start()) + 1
            yield from _simple(name, line, " ".join(found[1].split()), fenced=False)


def _of_block(page: str, first: int, block: str, *, is_console: bool) -> Iterator[PageCommand]:
    lines = block.splitlines()
    number = 0
    while number < len(lines):
        begin, text = number, lines[number]
        while text.endswith("\\"):
            number += 1
            text = text[:-1] + lines[number].strip()
        number += 1
        if is_console and not text.startswith("$ "):
            continue
        yield from _simple(page, first + begin, text.removeprefix("$ "), fenced=True)


def _simple(page: str, line: int, text: str, *, fenced: bool) -> Iterator[PageCommand]:
    """The commands that `&&` joins."""
    words = shlex.split(text, comments=True)
    while words:
        end = words.index("&&") if "&&" in words else len(words)
        part, words = words[:end], words[end + 1 :]
        variables = {}
        if part[:1] == ["export"]:
            part = part[1:]
        while part and re.fullmatch(r"[A-Z_]+=.*", part[0]):
            name, _, value = part.pop(0).partition("=")
            variables[name] = value
        yield PageCommand(page, line, text.strip(), variables, tuple(part), fenced)
