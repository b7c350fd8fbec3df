"""Folders that several processes want made: shards of one run, two workers of pytest, engines of one matrix."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["kept_folder"]


def kept_folder(folder: Path, wanted: Any, write: Callable[[Path], object]) -> Path:
    """`folder`, filled by `write(new folder)`; one that was made for the same `wanted` is kept.

    One process writes, the others wait for it. The folder appears when it is whole, so that neither a reader nor a run
    that was interrupted leaves half of one. `wanted`, of JSON, says all that the content depends on.
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
        shutil.rmtree(folder, ignore_errors=True)
        new.rename(folder)
    return folder
