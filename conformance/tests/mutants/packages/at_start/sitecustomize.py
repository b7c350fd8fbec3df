"""Every Python of a judged mutation begins here, those that a check spawns as well (the folder is on PYTHONPATH).

CHANGED_MODULE=NAME=FILE: the module of that name is loaded from that file. LINES_SEEN_IN=FOLDER: at its end the process
writes there which lines of LINES_SEEN_OF (folders, parted by colons) it has run.
"""

from __future__ import annotations

import atexit
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any


class _Changed(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, file: str) -> None:
        self._name, self._file = name, file

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        own = importlib.machinery.PathFinder.find_spec(fullname, path)
        inner = list(own.submodule_search_locations or ()) if own is not None else []
        return importlib.util.spec_from_file_location(
            fullname, self._file, submodule_search_locations=inner or None
        )


class Lines:
    """Lines that were run, by file, of files in `folders`."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = tuple(folders)
        # By identity, and kept: equal code may come from another file.
        self._of: dict[int, tuple[CodeType, set[int] | None]] = {}
        self._files: dict[str, set[int]] = {}

    def begin(self) -> None:
        threading.settrace(self._call)
        sys.settrace(self._call)

    def taken(self) -> dict[str, list[int]]:
        """What was run since it was asked last."""
        found = {file: sorted(lines) for file, lines in self._files.items() if lines}
        for lines in self._files.values():
            lines.clear()
        return found

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if id(code) not in self._of:
            file = code.co_filename
            mine = file.startswith(self._folders)
            self._of[id(code)] = code, self._files.setdefault(file, set()) if mine else None
        lines = self._of[id(code)][1]
        if lines is None:
            return None
        lines.add(frame.f_lineno)

        def line(frame: FrameType, event: str, argument: Any) -> Any:
            lines.add(frame.f_lineno)
            return line

        return line


LINES: Lines | None = None


def _write() -> None:
    assert LINES is not None
    folder = Path(os.environ["LINES_SEEN_IN"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{os.getpid()}.json").write_text(json.dumps(LINES.taken()))


if os.environ.get("CHANGED_MODULE"):
    sys.meta_path.insert(0, _Changed(*os.environ["CHANGED_MODULE"].split("=", 1)))
if os.environ.get("LINES_SEEN_IN"):
    LINES = Lines(os.environ["LINES_SEEN_OF"].split(":"))
    LINES.begin()
    atexit.register(_write)
