"""The command's table of contents: which function answers which subcommand."""

from __future__ import annotations

import typer

from sglang_platform.core.cli.doctor import doctor
from sglang_platform.core.cli.extensions import Extensible
from sglang_platform.core.cli.hooks import hooks
from sglang_platform.core.cli.info import info
from sglang_platform.core.cli.list import list_plugins
from sglang_platform.core.cli.new import new

__all__ = ["app"]

app = typer.Typer(
    name="sglang-platform",
    cls=Extensible,
    help="Platforms, plugins and hooks for SGLang: what is installed, what is chosen and why, what is wrong.\n\n"
    "Exit status: 0 all is well, 1 a problem was found, 2 the command was not understood, 3 it failed itself.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("list")(list_plugins)
app.command("info")(info)
app.command("doctor")(doctor)
app.command("new")(new)
app.add_typer(hooks, name="hooks")
