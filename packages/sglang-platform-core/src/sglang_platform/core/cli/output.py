"""How every subcommand prints: JSON or rich text on standard output, refusals on standard error."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sglang_platform.core.discovery.trace import describe_error
from sglang_platform.core.errors import PlatformError

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["FOUND_A_PROBLEM", "JsonOption", "console", "print_json", "print_refusal", "quiet_plugins"]

FOUND_A_PROBLEM = 1

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


def console() -> Console:
    """Standard output. Where it is no terminal, lines are as long as they need to be."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 200)


def print_json(document: Any) -> None:
    """Write one JSON document to standard output."""
    json.dump(document, sys.stdout, indent=2, default=str)
    sys.stdout.write("\n")


def print_refusal(error: PlatformError, as_json: bool) -> None:
    """Print why there is no answer: as `{"error": ...}` where the caller asked for JSON."""
    if as_json:
        print_json({"error": describe_error(error)})
    else:
        typer.echo(str(error), err=True)


@contextlib.contextmanager
def quiet_plugins() -> Iterator[None]:
    """Around code of plugins: what they print goes to standard error, so that it spoils no document."""
    with contextlib.redirect_stdout(sys.stderr):
        yield
