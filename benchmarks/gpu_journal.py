"""A file of events, one line of JSON each, by which `gpu.py` tells `gpu_all.py` what it has done before it may die."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

__all__ = ["Journal", "Reader", "in_a_line"]


class Journal:
    """The writing end. `path` None: events are printed."""

    def __init__(self, path: Path | None) -> None:
        self._file = None if path is None else path.open("a", encoding="utf-8")

    def write(self, **event: Any) -> None:
        """One event, on its way to the disk when this returns."""
        text = json.dumps(event)
        if self._file is None:
            print(text, flush=True)
            return
        self._file.write(text + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())


class Reader:
    """The reading end; the file need not be there yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0

    def new(self) -> list[dict[str, Any]]:
        """The whole lines since the last call. A line that a dying process did not finish is left."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._read)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._read += len(whole) + len(newline)
        return [json.loads(line) for line in whole.splitlines()]


def in_a_line(error: BaseException) -> str:
    """The kind of an error and the first line of what it says."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]
