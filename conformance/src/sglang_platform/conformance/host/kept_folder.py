"""Folders that several processes want made: shards of one run, two workers of pytest, engines of one matrix."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["kept_folder"]


def kept_folder(folder: Path, wanted: Any, write: Callable[[Path], object]) -> Path:
    """`folder`, filled by `write(new folder)`; one that was made for the same `wanted` is kept.

    One process writes, the others wait for it. The folder appears when it is whole, so that neither a reader nor a run
    that was interrupted leaves half of one. `wanted`, of JSON, says all that the content depends on. What lies
    there and was not made here is moved aside, and stays.
    """
    from filelock import FileLock

    mark = json.dumps(wanted)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f".{folder.name}.lock")):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if (folder / "complete.json").read_text() == mark:
                return folder
        new = folder.with_name(f".{folder.name}.new")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        write(new)
        (new / "complete.json").write_text(mark)
        _make_room(folder)
        new.rename(folder)
    return folder


def _make_room(folder: Path) -> None:
    if (folder / "complete.json").exists() or not folder.exists():
        shutil.rmtree(folder, ignore_errors=True)
        return
    free = (folder.with_name(f"{folder.name}.before-{number}") for number in itertools.count(1))
    folder.rename(next(one for one in free if not one.exists()))
