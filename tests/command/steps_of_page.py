"""A page as steps that a program can take: its commands with their outputs, and its edits.

- A fenced `sh` block holds commands; a `console` block commands behind `$ `, each with lines that its output contains.
  A comment that ends a command tells its minutes: `# 3 minutes`.
- A fenced `diff` block changes the file named in its first line, `--- FILE`. What it takes away stands there once.
- A fenced `python` block whose first line is the comment `# FILE` is that file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PageCommandLine", "PageEdit", "PageFile", "PageStep", "steps_of"]

_FENCE = re.compile(r"^```(sh|console|diff|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass
class PageCommandLine:
    """A command as it stands, the output that the page shows of it, and the minutes that it says."""

    line: int
    text: str
    shown: list[str]

    @property
    def minutes(self) -> int:
        found = re.search(r"  # (\d+) minutes?$", self.text)
        return int(found[1]) if found else 0


@dataclass
class PageEdit:
    """Lines of a file that others replace; lines without a sign stay, and tell the place."""

    line: int
    file: str
    old: str
    new: str

    def apply(self, folder: Path) -> None:
        """Raises ValueError unless the file has the old lines exactly once."""
        path = folder / self.file
        text = path.read_text()
        if text.count(self.old) != 1:
            raise ValueError(f"line {self.line}: {self.file} has {text.count(self.old)} times\n{self.old}")
        path.write_text(text.replace(self.old, self.new))


@dataclass
class PageFile:
    """A file as the page shows it."""

    line: int
    file: str
    text: str

    def apply(self, folder: Path) -> None:
        """Write it. Raises ValueError where its folder is not there."""
        if not (folder / self.file).parent.is_dir():
            raise ValueError(f"line {self.line}: there is no folder for {self.file}")
        (folder / self.file).write_text(self.text)


PageStep = PageCommandLine | PageEdit | PageFile


def steps_of(page: Path) -> Iterator[PageStep]:
    """The steps of a page, in its order."""
    text = page.read_text(encoding="utf-8")
    for block in _FENCE.finditer(text):
        line = text.count("\n", 0, block.start(2)) + 1
        lines = block[2].splitlines()
        if block[1] == "sh":
            yield from (PageCommandLine(line + at, one, []) for at, one in enumerate(lines) if one)
        elif block[1] == "console":
            yield from _console(line, lines)
        elif block[1] == "diff":
            yield _edit(line, lines)
        elif lines[0].startswith("# "):
            yield PageFile(line, lines[0].removeprefix("# "), "\n".join(lines[1:]) + "\n")


def _console(line: int, lines: list[str]) -> Iterator[PageCommandLine]:
    command: PageCommandLine | None = None
    for at, one in enumerate(lines):
        if one.startswith("$ "):
            if command is not None:
                yield command
            command = PageCommandLine(line + at, one.removeprefix("$ "), [])
        elif command is None:
            raise ValueError(f"line {line + at}: output without a command: {one}")
        else:
            command.shown.append(one.strip())
    if command is not None:
        yield command


def _edit(line: int, lines: list[str]) -> PageEdit:
    head, *changed = lines
    if not head.startswith("--- ") or not changed or any(one and one[0] not in " +-" for one in changed):
        raise ValueError(f"line {line}: a diff begins with `--- FILE`, and its lines with -, + or a blank")
    old, new = ([one[1:] for one in changed if one[:1] != other] for other in "+-")
    return PageEdit(line, head.removeprefix("--- "), "\n".join([*old, ""]), "\n".join([*new, ""]))
