"""The bytes of a source file or of a wheel's member, within limits.

An inspected wheel, folder or package may be damaged or hostile. So reads take bounded time and memory, and a failure is
reported as the reason why a module cannot be read.
"""

from __future__ import annotations

import lzma
import os
import stat
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

__all__ = ["LARGEST", "Unread", "file_bytes", "member_bytes", "metadata_text"]

LARGEST = 4 << 20
"""Bytes of the largest file that is read as source: ten times the largest that SGLang has."""


class Unread(ValueError):
    """An existing file could not be read; the message says why."""


def file_bytes(path: str, most: int = LARGEST) -> bytes:
    """The content of a plain file. Raises Unread for a link that leads nowhere, a pipe, and more than `most`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would wait for a writer
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Unread("it is no plain file")
            return _limited(file, most)
    except OSError as error:
        raise Unread(error.strerror or str(error)) from None


def member_bytes(archive: zipfile.ZipFile) -> Callable[[str], bytes]:
    """Reads members of `archive` by name. Raises Unread for what is damaged, encrypted, or larger than LARGEST."""

    def read(name: str) -> bytes:
        try:
            with archive.open(name) as member:
                return _limited(member, LARGEST)
        except Unread:
            raise
        # RuntimeError: encrypted, or compressed in a way that Python does not know.
        except (
            OSError,
            EOFError,
            KeyError,
            RuntimeError,
            ValueError,
            zipfile.BadZipFile,
            zlib.error,
            lzma.LZMAError,
        ) as error:
            raise Unread(str(error)) from None

    return read


def metadata_text(distribution: Any, name: str) -> str:
    """A metadata file of an installed distribution (`importlib.metadata`'s); empty where it has none. Raises Unread."""
    folder = getattr(distribution, "_path", None)
    if not isinstance(folder, Path):  # from another finder, or in an archive
        return distribution.read_text(name) or ""
    if not os.path.lexists(folder / name):
        return ""
    return file_bytes(str(folder / name)).decode(errors="replace")


def _limited(file: IO[bytes], most: int) -> bytes:
    text = file.read(most + 1)
    if len(text) > most:
        raise Unread(f"it is larger than {most >> 20} MiB")
    return text
