"""The steps of a page, in order: fenced `sh` blocks are commands, and a block under a line that ends with a file's name
in backticks and a colon is an edit: `diff` of a file that is there, another one makes the file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["Command", "Edit", "page_steps"]


class Command(NamedTuple):
    text: str


class Edit(NamedTuple):
    """`old` stands in the file exactly once; empty, the file is made."""

    file: str
    old: str
    new: str

    def apply(self, folder: Path) -> None:
        path = folder / self.file
        if not self.old:
            assert not path.exists(), f"{self.file} is there already"
            path.write_text(self.new)
            return
        text = path.read_text()
        assert text.count(self.old) == 1, f"{self.file} has {text.count(self.old)} times:\n{self.old}"
        path.write_text(text.replace(self.old, self.new))


_FENCE = re.compile(r"(?P<before>[^\n]*)\n\n```(?P<language>\w+)\n(?P<body>.*?)^```", re.M | re.S)


def page_steps(text: str) -> Iterator[Command | Edit]:
    for fence in _FENCE.finditer(text):
        body, file = fence["body"], re.search(r"`([\w./-]+)`:$", fence["before"])
        if fence["language"] == "sh":
            yield from (Command(line) for line in body.splitlines())
        elif file is not None and fence["language"] == "diff":
            yield Edit(file[1], _side(body, "-"), _side(body, "+"))
        elif file is not None:
            yield Edit(file[1], "", body)


def _side(diff: str, sign: str) -> str:
    """The lines of one side of a diff; an empty line is context."""
    lines = [line or " " for line in diff.splitlines()]
    return "".join(f"{line[1:]}\n" for line in lines if line[0] in (" ", sign))
