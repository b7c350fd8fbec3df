"""Files that a caller asks a command for: reports and pages."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from sglang_platform.core.cli.page import Page
from sglang_platform.core.errors import ConfigurationError

__all__ = ["as_html", "ensure_writable", "write_text"]

_FOR_WRITING = os.O_WRONLY | os.O_CREAT


def as_html(show: Callable[[Page], None]) -> str:
    """What `show` prints, as one self-contained HTML page."""
    page = Page(record=True)
    show(page)
    return page.export_html()


def write_text(path: Path, text: str) -> None:
    """Write a file that the caller asked for. Raises ConfigurationError where that cannot be."""
    with _refused_by_name(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        # Of a pipe that nobody reads, opening says so at once; else it would wait for a reader without end.
        with os.fdopen(os.open(path, _FOR_WRITING | os.O_TRUNC | os.O_NONBLOCK, 0o666), "wb") as file:
            os.set_blocking(file.fileno(), True)
            file.write(text.encode("utf-8", "backslashreplace"))


def ensure_writable(path: Path) -> None:
    """Before work whose result goes there: raises ConfigurationError as `write_text` would, and leaves no file."""
    with _refused_by_name(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_fifo():  # whoever reads it would take this for its end
            return
        there = os.path.lexists(path)
        os.close(os.open(path, _FOR_WRITING | os.O_NONBLOCK, 0o666))
        if not there:
            path.unlink()


@contextlib.contextmanager
def _refused_by_name(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: no name of a file
        unread = getattr(error, "errno", None) == errno.ENXIO
        raise ConfigurationError(
            f"{path} cannot be written",
            why="it is a pipe that nobody reads" if unread else str(error),
            fix="give another place",
        ) from None
