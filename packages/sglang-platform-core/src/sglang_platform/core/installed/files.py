"""The bytes of a source or metadata file, within limits.

An inspected folder or package may be damaged or hostile. So reads take bounded time and memory, and a failure is
reported as the reason why a module cannot be read.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

__all__ = ["LARGEST", "Unread", "file_bytes", "metadata_text"]

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
            text = file.read(most + 1)
    except OSError as error:
        raise Unread(error.strerror or str(error)) from None
    if len(text) > most:
        raise Unread(f"it is larger than {most >> 20} MiB")
    return text


def metadata_text(distribution: Any, name: str) -> str:
    """A metadata file of an installed distribution (`importlib.metadata`'s); empty where it has none. Raises Unread."""
    folder = getattr(distribution, "_path", None)
    if not isinstance(folder, Path):  # from another finder, or in an archive
        return distribution.read_text(name) or ""
    if not os.path.lexists(folder / name):
        return ""
    return file_bytes(str(folder / name)).decode(errors="replace")
