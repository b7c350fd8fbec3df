"""Compares the files of an installed distribution with the RECORD of its wheel.

A file that is missing, truncated or of another version makes Python raise an error far from the cause. An editable
installation cannot be checked: its RECORD lists no sources.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sglang_platform.core.installed.distributions import installed_version, recorded_files
from sglang_platform.core.installed.files import LARGEST, Unread, file_bytes

__all__ = ["Damage", "damage_of", "installed_files"]

_SHOWN = 3


class Damage(NamedTuple):
    """What is wrong with the files of one distribution."""

    distribution: str
    version: str | None
    files: tuple[str, ...]
    """One line each: the file, as RECORD names it, and what is wrong with it."""
    unusable: bool
    """True if a file is missing or is Python that does not parse; otherwise files were only modified."""

    @property
    def why(self) -> str:
        shown = "; ".join(self.files[:_SHOWN])
        more = f"; and {len(self.files) - _SHOWN} more" if len(self.files) > _SHOWN else ""
        return f"files of {self.distribution} are not as they were installed: {shown}{more}"

    @property
    def fix(self) -> str:
        wanted = f"{self.distribution}=={self.version}" if self.version else self.distribution
        return f"install it again: pip install --force-reinstall --no-deps {wanted}"


def damage_of(distribution: str) -> Damage | None:
    """What is wrong with its files; None where nothing is, it is not installed, or its RECORD lists no file."""
    wrong, unusable = [], False
    for path, name, digest, size in recorded_files(distribution):
        with contextlib.suppress(ValueError):
            if digest and (why := _wrong(path, digest, size)):
                wrong.append(f"{name} {why}")
                unusable = unusable or not _is_usable(path)
    version = installed_version(distribution)
    return Damage(distribution, version, tuple(sorted(wrong)), unusable) if wrong else None


def installed_files(distribution: str) -> Iterator[tuple[str, str]]:
    """Path and digest of each file that it has installed, without its metadata."""
    for path, name, digest, _ in recorded_files(distribution):
        if digest and ".dist-info/" not in name:
            yield str(path), digest


def _is_usable(path: Path) -> bool:
    try:
        text = file_bytes(str(path)) if path.suffix == ".py" else b""
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return path.exists()


def _wrong(path: Path, digest: str, size: str) -> str | None:
    try:
        there = path.stat().st_size
    except OSError as error:
        return "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read ({error.strerror})"
    if size and there != int(size):
        return f"has {there} bytes where {size} were installed"
    kind, _, expected = digest.partition("=")
    if path.suffix != ".py" or kind not in hashlib.algorithms_guaranteed or there > LARGEST:
        return None
    try:
        actual = base64.urlsafe_b64encode(hashlib.new(kind, file_bytes(str(path))).digest())
    except Unread as error:
        return f"cannot be read ({error})"
    return None if actual.rstrip(b"=").decode() == expected else "was changed"
