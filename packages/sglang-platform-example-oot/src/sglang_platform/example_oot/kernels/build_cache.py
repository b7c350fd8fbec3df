"""The cache directory of built libraries: complete or absent, refused if another user could write it, one build at a
time.

A vendor changes nothing here, or drops the file where the wheel ships the library built.

Beside a library lies its digest, written first: a library without it, or with another, was cut short (a full disk, a
machine that went down) and is built again. A build works in a directory named after its library, under a lock that ends
with its process; what a killed build left there is removed by the next.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

__all__ = ["check_ours", "exclusive", "keep", "make_directory", "remove_left_overs", "whole"]

SECONDS_STOPPED = 10.0
"""How long a stopped builder (Ctrl-Z, a debugger) is waited for."""
SECONDS_TO_WAIT = 3600.0
"""How long a build may take on a busy machine."""


def make_directory(path: Path) -> None:
    """Make `path` for this user alone. RuntimeError where it is there and another user may write to it."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    check_ours(path)


def check_ours(path: Path) -> None:
    """Raise RuntimeError if a user other than this one or root could have written `path`, whose code would run here."""
    about = path.stat()
    if about.st_uid not in (os.geteuid(), 0):
        raise RuntimeError(
            f"{path} belongs to user {about.st_uid}, and what lies there would run as user {os.geteuid()};"
            " remove it, or name a directory of your own in SGLANG_EXAMPLE_OOT_CACHE"
        )
    sticky = stat.S_ISDIR(about.st_mode) and about.st_mode & stat.S_ISVTX
    if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not sticky:
        raise RuntimeError(
            f"{path} can be written by others (mode {stat.S_IMODE(about.st_mode):o}), and what lies there would run"
            f" here; chmod go-w {path}, or name another directory in SGLANG_EXAMPLE_OOT_CACHE"
        )


def whole(library: Path) -> bool | None:
    """Whether `library` matches its digest; None if it is absent. RuntimeError if another user may have written it."""
    try:
        check_ours(library)
        for path in (library, _digest(library)):
            if not stat.S_ISREG(path.stat().st_mode):  # reading a pipe would block
                raise RuntimeError(f"{path} is no plain file; remove it")
        content = library.read_bytes()
        return hashlib.sha256(content).hexdigest() == _digest(library).read_text(errors="replace")
    except FileNotFoundError:
        return False if library.exists() else None


def keep(built: Path, library: Path) -> None:
    """Move a finished library into place, in one step and once it is on the disk. OSError where the disk is full."""
    digest = built.with_suffix(".sha256")
    digest.write_text(hashlib.sha256(built.read_bytes()).hexdigest())
    for path, target, mode in ((digest, _digest(library), 0o644), (built, library, 0o755)):
        path.chmod(mode)
        _to_disk(path)
        path.replace(target)
    _to_disk(library.parent)


def remove_left_overs(directory: Path, own: str) -> None:
    """Remove the build directories of builds that ended without doing so; the caller holds the lock of build `own`."""
    for path in directory.glob("build-*"):
        name = path.name.removeprefix("build-")
        if name == own:
            shutil.rmtree(path, ignore_errors=True)
            continue
        with contextlib.suppress(OSError), _lock_file(_lock(directory, name)) as file:
            if _take(file):
                shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def exclusive(directory: Path, name: str, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of build `name`, which ends with its process, however that ends.

    RuntimeError, naming the process that holds it, where that is stopped or takes longer than a build may.
    """
    with _lock_file(_lock(directory, name)) as file:
        if not _take(file):
            say("waiting for another process that builds the CPU kernels")
            _wait(file)
        os.truncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)
        yield


def _wait(file: int) -> None:
    begun = running = time.monotonic()
    while not _take(file):
        now, holder = time.monotonic(), os.pread(file, 20, 0).decode(errors="replace")
        if not _stopped(holder):
            running = now
        if now - running > SECONDS_STOPPED:
            raise RuntimeError(
                f"process {holder}, which builds the CPU kernels, is stopped; kill -CONT {holder} lets it go on,"
                f" kill -9 {holder} lets another build"
            )
        if now - begun > SECONDS_TO_WAIT:
            raise RuntimeError(
                f"process {holder or 'of another machine'} has been building the CPU kernels for"
                f" {SECONDS_TO_WAIT / 60:.0f} minutes; end it, or name another directory in SGLANG_EXAMPLE_OOT_CACHE"
            )
        time.sleep(0.2)


def _stopped(process: str) -> bool:
    try:
        return Path(f"/proc/{int(process)}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    except (OSError, ValueError, IndexError):
        return False


def _lock(directory: Path, name: str) -> Path:
    return directory / f"kernels-{name}.lock"


@contextlib.contextmanager
def _lock_file(path: Path) -> Iterator[int]:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        yield file
    finally:
        os.close(file)


def _take(file: int) -> bool:
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _digest(library: Path) -> Path:
    return library.with_suffix(".sha256")


def _to_disk(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
