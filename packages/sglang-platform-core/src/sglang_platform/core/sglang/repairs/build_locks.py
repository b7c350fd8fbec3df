"""Removes stale lock files of killed extension builds, for which a launch would wait forever.

`torch.utils.cpp_extension` creates a file `lock` per extension, and ninja a `.ninja_lock`. A killed build leaves them
behind, and the next process polls until they are removed.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path

__all__ = ["AGE_VARIABLE", "extension_caches", "sweep"]

AGE_VARIABLE = "SGLANG_STALE_LOCK_AGE_MINUTES"
_DEFAULT_MINUTES = 30.0
_NAMES = frozenset({"lock", ".ninja_lock"})

_logger = logging.getLogger(__name__)


def sweep(folders: list[Path] | None = None, *, minutes: float | None = None) -> list[Path]:
    """Remove stale locks below the extension caches; returns those removed.

    A lock is stale if it is older than `minutes` (SGLANG_STALE_LOCK_AGE_MINUTES, default 30), belongs to this user, and
    no live process holds it open or has locked it. If that cannot be determined, the lock stays.
    """
    age = _age_from_environment() if minutes is None else minutes
    oldest = time.time() - age * 60
    candidates = []
    for folder in extension_caches() if folders is None else folders:
        for path, status in _locks(folder):
            if status.st_mtime < oldest and status.st_uid == os.getuid():
                candidates.append((path, status))
    if not candidates:
        return []
    held = _held_files()
    removed = []
    for path, status in candidates:
        if held is None or (status.st_dev, status.st_ino) in held:
            continue
        try:
            path.unlink()
        except OSError:
            continue  # another process was faster
        removed.append(path)
        _logger.warning(
            "removed %s: a build that was killed %.0f minutes ago left it", path, _minutes_old(status)
        )
    return removed


def extension_caches() -> list[Path]:
    """The build folders of extensions: `TORCH_EXTENSIONS_DIR`, else torch's folder in the user's cache."""
    named = os.environ.get("TORCH_EXTENSIONS_DIR")
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return [Path(named)] if named else [Path(cache) / "torch_extensions"]


def _locks(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for parent, _, names in os.walk(folder):
        for name in _NAMES.intersection(names):
            path = Path(parent) / name
            try:
                yield path, path.stat()
            except OSError:
                continue


def _held_files() -> set[tuple[int, int]] | None:
    """(device, inode) of every file that a process of this user holds open or has locked; None without /proc."""
    processes = Path("/proc")
    if not (processes / "self" / "fd").is_dir():
        return None
    held = set()
    for process in processes.iterdir():
        if not process.name.isdigit():
            continue
        try:
            for descriptor in (process / "fd").iterdir():
                status = descriptor.stat()
                held.add((status.st_dev, status.st_ino))
        except OSError:
            continue  # the process ended, or belongs to another user, whose locks are not touched
    return held


def _minutes_old(status: os.stat_result) -> float:
    return (time.time() - status.st_mtime) / 60


def _age_from_environment() -> float:
    value = os.environ.get(AGE_VARIABLE)
    try:
        return float(value) if value else _DEFAULT_MINUTES
    except ValueError:
        _logger.warning("%s=%s is no number of minutes; %g is used", AGE_VARIABLE, value, _DEFAULT_MINUTES)
        return _DEFAULT_MINUTES
