"""How every subcommand prints: JSON or a `Page` on standard output, refusals and progress on standard error."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sglang_platform.core.discovery.trace import describe_error
from sglang_platform.core.errors import ConfigurationError, PlatformError

if TYPE_CHECKING:
    from sglang_platform.core.cli.page import Page
    from sglang_platform.core.discovery.apart import DecisionApart

__all__ = [
    "FOUND_A_PROBLEM",
    "INCOMPLETE",
    "NOT_UNDERSTOOD",
    "JsonOption",
    "console",
    "print_json",
    "print_refusal",
    "quiet_plugins",
    "show_slow",
    "show_stages",
]

FOUND_A_PROBLEM = 1

NOT_UNDERSTOOD = 2
"""An argument cannot be used, or what it names cannot be read."""

INCOMPLETE = 3
"""Nothing wrong was found, and not everything could be looked at."""

_LABELS = len("plugin:")
"""Columns of the labels in a refusal, as in the text of a PlatformError."""

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


def console(*, stderr: bool = False) -> Page:
    """Standard output, or standard error."""
    # rich is needed only by commands that print text.
    from sglang_platform.core.cli.page import Page

    return Page(stderr=stderr)


def print_json(document: Any) -> None:
    """Write one JSON document to standard output."""
    json.dump(document, sys.stdout, indent=2, default=str)
    sys.stdout.write("\n")


def print_refusal(error: PlatformError | ValueError, as_json: bool) -> None:
    """Print why there is no answer: as `{"error": ...}` where the caller asked for JSON."""
    refusal = error if isinstance(error, PlatformError) else ConfigurationError(str(error))
    if as_json:
        print_json({"error": describe_error(refusal)})
        return
    plugin = str(refusal.plugin) if refusal.plugin is not None else None
    fields = (("plugin", plugin), ("why", refusal.why), ("fix", refusal.fix))
    with contextlib.suppress(OSError):  # nobody reads standard error any more
        console(stderr=True).block(refusal.what, fields, least=_LABELS)


def show_slow(asked: DecisionApart) -> None:
    """A line on standard output for each step of a plugin that took over a second."""
    for origin, step, seconds in asked.slow():
        console().print(f"slow: {step} of {origin} took {seconds:.1f} s", markup=False)


_PATIENCE = 2.0
"""Seconds without a word."""

_TELL_STAGES = (
    "sglang_platform.core.cli",
    "sglang_platform.core.discovery.apart",
    "sglang_platform.core.doctor",
    "sglang_platform.devtools",
)
"""Loggers: each INFO record below one of these is a stage of a command."""


@contextlib.contextmanager
def show_stages(as_json: bool) -> Iterator[None]:
    """Around slow work: one line per stage on standard error, from the third second on.

    Nothing is shown to a program that asked for JSON: standard error is no terminal then.
    """
    if as_json and not sys.stderr.isatty():
        yield
        return
    shown = _Stages()
    loggers = [logging.getLogger(name) for name in _TELL_STAGES]
    for logger in loggers:
        logger.addHandler(shown)
        logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        shown.close()
        for logger in loggers:
            logger.removeHandler(shown)


class _Stages(logging.Handler):
    """Keeps the latest stage until patience ends, and shows each one after that."""

    def __init__(self) -> None:
        super().__init__()
        self._latest: str | None = None
        self._is_over = False
        self._patience = threading.Timer(_PATIENCE, self._end_of_patience)
        self._patience.daemon = True
        self._patience.start()

    def emit(self, record: logging.LogRecord) -> None:
        self._latest = record.getMessage()
        if self._is_over:
            self._show()

    def close(self) -> None:
        self._patience.cancel()
        super().close()

    def _end_of_patience(self) -> None:
        with self.lock or contextlib.nullcontext():
            self._is_over = True
            if self._latest is not None:
                self._show()

    def _show(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # nobody reads standard error any more
            console(stderr=True).print(f"{self._latest} ...")


@contextlib.contextmanager
def quiet_plugins() -> Iterator[None]:
    """Around code of plugins: what they print goes to standard error, so that it spoils no document."""
    with contextlib.redirect_stdout(sys.stderr):
        yield
