"""The argument by which a command is told of one plugin: its entry point or distribution."""

from __future__ import annotations

import itertools
from typing import Annotated

import typer

from sglang_platform.core.cli.output import NOT_UNDERSTOOD, print_refusal
from sglang_platform.core.discovery.named import NamedPlugin, known_names, plugin_named
from sglang_platform.core.errors import PlatformError

__all__ = ["DiffusionOption", "PluginArgument", "complete", "named_or_exit"]


def complete(incomplete: str) -> list[str]:
    """The names that a shell offers."""
    return [name for name in itertools.chain(*known_names().values()) if name.startswith(incomplete)]


PluginArgument = Annotated[
    str | None,
    typer.Argument(
        help="Only this plugin: its entry point or distribution.",
        show_default=False,
        autocompletion=complete,
    ),
]

DiffusionOption = Annotated[
    bool, typer.Option("--diffusion", help="Also the diffusion runtime, whatever it is used for.")
]


def named_or_exit(word: str | None, as_json: bool) -> NamedPlugin | None:
    """The plugin; None where no word was given. Ends the command with status 2 where the word names none."""
    try:
        return None if word is None else plugin_named(word)
    except PlatformError as error:
        print_refusal(error, as_json)
        raise typer.Exit(NOT_UNDERSTOOD) from None
