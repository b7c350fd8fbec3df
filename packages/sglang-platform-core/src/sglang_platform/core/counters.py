"""Counters that show which parts did the work, readable from another process while running.

Each process keeps one fixed table of (name, 64-bit count). With `SGLANG_PLATFORM_REPORT_DIR` set, the table is a
memory-mapped file `counters-<pid>.bin` in that folder, so an increment costs no system call and a reader needs no
cooperation from the process that counts: it still reads the truth after a crash. Without the variable the table is
private memory.
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sglang_platform.core.errors import ConfigurationError

__all__ = ["REPORT_DIR_VARIABLE", "Counter", "counter", "read", "read_all", "reporting", "snapshot"]

REPORT_DIR_VARIABLE = "SGLANG_PLATFORM_REPORT_DIR"

_MAGIC = b"SGLPCNT1"
_CAPACITY = 512
_NAME_BYTES = 120
_COUNT_BYTES = 8
_HEADER_BYTES = 16
_NAMES_AT = _HEADER_BYTES + _CAPACITY * _COUNT_BYTES
_SIZE = _NAMES_AT + _CAPACITY * _NAME_BYTES

_lock = threading.Lock()
_by_name: dict[str, Counter] = {}
_map: mmap.mmap | None = None
_counts: memoryview | None = None


class Counter:
    """One named count. Adding is not atomic across threads: each part counts on the thread that runs it."""

    __slots__ = ("_index", "name")

    def __init__(self, name: str, index: int) -> None:
        self.name = name
        self._index = index

    def add(self, n: int = 1) -> None:
        """Add `n` to the count."""
        _counts[self._index] += n  # type: ignore[index]

    # torch.compile calls it while tracing and omits it from the compiled code.
    add._dynamo_marked_constant = True  # type: ignore[attr-defined]

    def set(self, n: int) -> None:
        """Make the count `n`, for a gauge."""
        _counts[self._index] = n  # type: ignore[index]

    @property
    def value(self) -> int:
        return int(_counts[self._index])  # type: ignore[index]


def counter(name: str) -> Counter:
    """The counter of that name in this process, created at zero on first use.

    Raises ValueError for a name over 120 bytes, RuntimeError when 512 names are taken, ConfigurationError where the
    folder cannot be written.
    """
    found = _by_name.get(name)
    if found is not None:
        return found
    with _lock:
        found = _by_name.get(name)
        if found is None:
            if _map is None:
                _open(os.environ.get(REPORT_DIR_VARIABLE))
            found = Counter(name, len(_by_name))
            _write_name(found)
            _by_name[name] = found
        return found


def snapshot() -> dict[str, int]:
    """All counts of this process."""
    return {name: c.value for name, c in sorted(_by_name.items())}


def read(path: Path) -> dict[str, int]:
    """The counts in one `counters-<pid>.bin` file, which may belong to a live process.

    Raises ValueError if the file is not such a table.
    """
    data = path.read_bytes()
    if len(data) != _SIZE or data[: len(_MAGIC)] != _MAGIC:
        raise ValueError(f"{path} is not a counter table")
    counts = struct.unpack_from(f"{_CAPACITY}q", data, _HEADER_BYTES)
    result = {}
    for index in range(_CAPACITY):
        at = _NAMES_AT + index * _NAME_BYTES
        name = data[at : at + _NAME_BYTES].rstrip(b"\0").decode()
        if not name:
            break
        result[name] = counts[index]
    return result


def read_all(folder: Path) -> dict[int, dict[str, int]]:
    """The counts of every process that reported into `folder`, by process id."""
    return {int(path.stem.split("-")[1]): read(path) for path in sorted(folder.glob("counters-*.bin"))}


@contextmanager
def reporting() -> Iterator[None]:
    """Context for writing into the report folder. Turns an OSError into ConfigurationError."""
    try:
        yield
    except OSError as error:
        raise ConfigurationError(
            f"{REPORT_DIR_VARIABLE}={os.environ.get(REPORT_DIR_VARIABLE)!r} cannot be written",
            why=str(error),
            fix="name a folder that this process may write, on a disk with room, or unset the variable",
        ) from None


def _open(folder: str | None) -> None:
    global _map, _counts
    if folder:
        path = Path(folder) / f"counters-{os.getpid()}.bin"
        with reporting():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("w+b") as file:
                file.write(bytes(_SIZE))  # allocate blocks now: a sparse mapping on a full disk raises SIGBUS
                file.flush()
                _map = mmap.mmap(file.fileno(), _SIZE)
    else:
        _map = mmap.mmap(-1, _SIZE)
    _map[: len(_MAGIC)] = _MAGIC
    _counts = memoryview(_map)[_HEADER_BYTES:_NAMES_AT].cast("q")


def _write_name(c: Counter) -> None:
    encoded = c.name.encode()
    if len(encoded) > _NAME_BYTES:
        raise ValueError(f"counter name is over {_NAME_BYTES} bytes: {c.name!r}")
    if c._index >= _CAPACITY:
        raise RuntimeError(f"all {_CAPACITY} counters are taken; {c.name!r} cannot be added")
    assert _map is not None
    at = _NAMES_AT + c._index * _NAME_BYTES
    _map[at : at + len(encoded)] = encoded


def _restart_in_child() -> None:
    # A forked child must not keep counting in its parent's file.
    if _map is not None:
        try:
            _open(os.environ.get(REPORT_DIR_VARIABLE))
        except ConfigurationError as error:  # a fork has no caller to raise to
            import logging  # only once there is something to say

            logging.getLogger(__name__).warning("the counts of this fork are its own: %s", error)
            _open(None)
        for c in _by_name.values():
            _write_name(c)


os.register_at_fork(after_in_child=_restart_in_child)
