"""The command's table of contents: which function answers which subcommand."""

from __future__ import annotations

from typing import Annotated

import typer

from sglang_platform.core.cli.doctor import doctor
from sglang_platform.core.cli.extensions import HELP, Extensible
from sglang_platform.core.cli.hooks import hooks
from sglang_platform.core.cli.info import info
from sglang_platform.core.cli.list import list_plugins
from sglang_platform.core.installed.distributions import installed_version

__all__ = ["app"]

app = typer.Typer(
    name="sglang-platform",
    cls=Extensible,
    help="Platforms, plugins and hooks for SGLang: what is installed, what is chosen and why, what is wrong.\n\n"
    "Exit status: 0 all is well, 1 a problem was found, 2 the command was not understood, 3 not all could be looked "
    "at, or the command itself failed.",
    no_args_is_help=True,
    context_settings=HELP,
    pretty_exceptions_enable=False,
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"sglang-platform {installed_version('sglang-platform-core') or '(not installed)'}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version, and end.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Options of the command itself."""


app.command("list")(list_plugins)
app.command("info")(info)
app.command("doctor")(doctor)
app.add_typer(hooks, name="hooks")
