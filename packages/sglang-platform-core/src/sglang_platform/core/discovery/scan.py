"""One scan of the installed metadata per process.

Finds in the folders of `sys.path` the same entry points as `importlib_metadata`, at lower cost: it reads each
`entry_points.txt` as bytes, and parses only those that mention sglang. Zip archives and foreign finders are not
searched; an egg is reported.

Of two distributions with one name the first on the path wins, and one with metadata precedes a leftover folder without,
as in `importlib_metadata` 9 and later.
"""

from __future__ import annotations

# Uses os, since pathlib would double the time of a scan.
# ruff: noqa: PTH110, PTH113, PTH208
import os
import stat
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sglang_platform.core.discovery.distribution import (
    FoundDistribution,
    UnreadableMetadata,
    entry_points,
    may_name_plugins,
    normalize,
)
from sglang_platform.core.errors import PluginOrigin

__all__ = [
    "EntryPointRecord",
    "HiddenDistribution",
    "Scan",
    "invalidate",
    "records",
    "scan",
    "scan_paths",
]


class EntryPointRecord(NamedTuple):
    """One entry point as stated in the metadata; the plugin is not imported."""

    group: str
    name: str
    value: str
    origin: PluginOrigin


class HiddenDistribution(NamedTuple):
    """A distribution with sglang entry points that is shadowed by another one of the same name."""

    path: str
    by: str


class Scan(NamedTuple):
    """The result of one scan; `records` is sorted by group, name and distribution."""

    records: tuple[EntryPointRecord, ...] = ()
    unreadable: tuple[UnreadableMetadata, ...] = ()
    hidden: tuple[HiddenDistribution, ...] = ()


_LARGEST = 4 << 20
"""Size limit of an `entry_points.txt` in bytes; real files have less than a thousandth."""
_lock = threading.Lock()
_cached: Scan | None = None


def scan() -> Scan:
    """The scan of this process: made on the first call, then cached, even if `sys.path` changes."""
    global _cached
    with _lock:
        if _cached is None:
            _cached = scan_paths(sys.path)
        return _cached


def invalidate() -> None:
    """Drop the cached scan, so that the next call scans again. For tests that install distributions."""
    global _cached
    with _lock:
        _cached = None


def records(group: str) -> tuple[EntryPointRecord, ...]:
    """The entry points of one group in this process."""
    return tuple(record for record in scan().records if record.group == group)


def scan_paths(paths: Iterable[str | os.PathLike[str]]) -> Scan:
    """The scan of the given path entries, as if they were `sys.path`."""
    found: list[FoundDistribution] = []
    unreadable: list[UnreadableMetadata] = []
    for entry in paths:
        if isinstance(entry, str | os.PathLike):  # the import system ignores other types on sys.path too
            found.extend(_scan_entry(os.fspath(entry), unreadable))
    return _first_of_each_name(found, unreadable)


def _scan_entry(entry: str, unreadable: list[UnreadableMetadata]) -> Iterator[FoundDistribution]:
    """Every distribution in one path entry, in the folder's order; only those that mention sglang are parsed."""
    folder = entry or "."
    if folder.lower().rstrip("/").endswith(".egg"):
        text = _read(f"{folder}/EGG-INFO/entry_points.txt", unreadable)
        if os.path.isfile(folder) or (text is not None and may_name_plugins(text)):
            unreadable.append(
                UnreadableMetadata(folder, "an egg is not searched for plugins: install it with pip")
            )
        return
    try:
        children = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        unreadable.append(UnreadableMetadata(folder, str(error)))
        return
    for child in children:
        if not child.endswith((".dist-info", ".egg-info")):
            continue
        # The part before the first dash; normalised by regular expression only if needed, to save time.
        name = child.rpartition(".")[0].partition("-")[0].lower()
        if "." in name or "__" in name:
            name = normalize(name)
        path = f"{folder}/{child}"
        points: list[tuple[str, str, str]] = []
        text = _read(f"{path}/entry_points.txt", unreadable)
        if text is not None and may_name_plugins(text):
            try:
                points = entry_points(text)
            except ValueError as error:
                unreadable.append(UnreadableMetadata(f"{path}/entry_points.txt", str(error)))
        yield FoundDistribution(name, path, points)


def _read(path: str, unreadable: list[UnreadableMetadata]) -> bytes | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # O_NONBLOCK: opening a pipe would block
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        unreadable.append(UnreadableMetadata(path, str(error)))
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            unreadable.append(UnreadableMetadata(path, "it is no plain file"))
            return None
        text = os.read(descriptor, 16384)
        if len(text) == 16384:
            while len(text) <= _LARGEST and (more := os.read(descriptor, 1 << 20)):
                text += more
        if len(text) > _LARGEST:
            unreadable.append(UnreadableMetadata(path, f"it is larger than {_LARGEST >> 20} MiB"))
            return None
        return text
    except OSError as error:
        unreadable.append(UnreadableMetadata(path, str(error)))
        return None
    finally:
        os.close(descriptor)


def _first_of_each_name(found: list[FoundDistribution], unreadable: list[UnreadableMetadata]) -> Scan:
    records: list[EntryPointRecord] = []
    hidden: list[HiddenDistribution] = []
    wanted = {distribution.name for distribution in found if distribution.entry_points}
    rivals: dict[str, list[FoundDistribution]] = {}
    for distribution in found:
        if distribution.name in wanted:
            rivals.setdefault(distribution.name, []).append(distribution)
    for same_name in rivals.values():
        winner = same_name[0]
        if len(same_name) > 1:
            winner = next(filter(_has_metadata, same_name), winner)
        for rival in same_name:
            if rival.entry_points and rival is not winner and rival.path != winner.path:
                hidden.append(HiddenDistribution(rival.path, winner.path))
        if winner.entry_points:
            name, version = _identity(winner.path)
            for group, entry_name, value in winner.entry_points:
                origin = PluginOrigin(entry_name, name or winner.name, version)
                records.append(EntryPointRecord(group, entry_name, value, origin))
    records.sort(key=lambda record: (*record[:3], record.origin.distribution or ""))
    return Scan(tuple(records), tuple(unreadable), tuple(hidden))


def _has_metadata(distribution: FoundDistribution) -> bool:
    path = distribution.path
    return os.path.exists(f"{path}/METADATA") or os.path.exists(f"{path}/PKG-INFO") or os.path.isfile(path)


def _identity(path: str) -> tuple[str | None, str | None]:
    """Name and version from the header of METADATA, without the cost of an e-mail parser."""
    fields: dict[str, str] = {}
    for name in ("METADATA", "PKG-INFO"):
        text = _read(f"{path}/{name}", [])
        if text:
            for line in text.decode("utf-8", errors="replace").splitlines():
                if not line.strip():
                    break
                key, colon, value = line.partition(":")
                if colon and not line[0].isspace():
                    fields.setdefault(key.strip().lower(), value.strip())
            break
    return fields.get("name"), fields.get("version")
