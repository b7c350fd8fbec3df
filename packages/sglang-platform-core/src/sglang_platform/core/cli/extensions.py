"""Subcommands that other distributions bring, found by entry point: devtools and the conformance suite do.

An entry point in the group `sglang_platform.cli` names a function or a `typer.Typer`; its name is the subcommand's.
`hooks.check` is the subcommand `check` of the group `hooks`. Help lists them by metadata alone; one is imported when it
is run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperGroup

from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.asking import resolve_obj
from sglang_platform.core.discovery.groups import COMMAND_GROUP
from sglang_platform.core.discovery.scan import EntryPointRecord
from sglang_platform.core.errors import explain
from sglang_platform.core.installed.distributions import metadata_headers

__all__ = ["HELP", "Extensible", "ExtensibleHooks"]

HELP = {"help_option_names": ["-h", "--help"]}
"""Settings of a command by itself; a subcommand has its group's."""

DEVTOOLS = "sglang-platform-devtools"

_SUMMARIES = {
    "new": "A platform package under your names, which serves at once: package, tests, CI.",
    "check": "All that can be known of a plugin without a device: packaging, hooks, lines that depend on SGLang.",
    "upgrade": "What changed between two releases of SGLang for every line of a plugin that depends on it.",
    "host": "What a release of SGLang says of itself, told from its sources.",
    "hooks.check": "Check hook targets against a release of SGLang by reading its sources.",
}
"""The subcommands of devtools. Core names them to say what to install where they are missing."""


class Extensible(TyperGroup):
    """A command group with the installed extensions among its subcommands."""

    prefix = ""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *(name for name in self._names() if name not in self.commands)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """For help and completion: an extension by its summary, not imported."""
        if cmd_name in self.commands or cmd_name not in self._names():
            return super().get_command(ctx, cmd_name)
        record = next(iter(self._extensions(cmd_name)), None)
        summary = _SUMMARIES.get(self.prefix + cmd_name) or _summary_of(record)
        return _command(cmd_name, lambda: None, help=summary if record else f"{summary} Needs {DEVTOOLS}.")

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name = args[0]
        is_own = name in self.commands
        found = self._extensions(name)
        for record in found if is_own else found[1:]:
            typer.echo(f"a subcommand is left out, since there is one of its name: {record.origin}", err=True)
        if is_own or name not in self._names():
            return super().resolve_command(ctx, args)
        return name, _loaded(name, found[0] if found else None), args[1:]

    def _names(self) -> dict[str, None]:
        found = [record.name for record in scan.records(COMMAND_GROUP)]
        return dict.fromkeys(
            name.removeprefix(self.prefix)
            for name in [*_SUMMARIES, *found]
            if name.startswith(self.prefix) and "." not in name.removeprefix(self.prefix)
        )

    def _extensions(self, name: str) -> list[EntryPointRecord]:
        return [one for one in scan.records(COMMAND_GROUP) if one.name == self.prefix + name]


class ExtensibleHooks(Extensible):
    """The group `hooks`."""

    prefix = "hooks."


def _loaded(name: str, record: EntryPointRecord | None) -> Any:
    """The subcommand; one that is not installed, or cannot be loaded, becomes a command that says why."""
    if record is None:
        return _refusal(name, f"{name} is for developers of plugins: pip install {DEVTOOLS}")
    try:
        found = resolve_obj(record.value.replace(" ", ""))
        if isinstance(found, typer.Typer):
            return typer.main.get_command(found)
        if not callable(found):
            raise TypeError(f"{record.value} is neither a function nor a typer.Typer")
        return _command(name, found)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a broken extension must not end the command without a word
        return _refusal(
            name,
            f"the subcommand {name!r} cannot be loaded\n  plugin: {record.origin}\n  why:    {explain(error)}\n"
            f"  fix:    install {record.origin.distribution} again, from where it came",
        )


def _refusal(name: str, text: str) -> Any:
    def refuse() -> None:
        typer.echo(text, err=True)
        raise typer.Exit(2)

    settings = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
    return _command(name, refuse, context_settings=settings)


def _command(name: str, function: Callable[..., Any], **options: Any) -> Any:
    """One function as a command of typer's."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(name, **options)(function)
    return typer.main.get_command(app)


def _summary_of(record: EntryPointRecord | None) -> str:
    """The summary of the distribution that brings it."""
    with contextlib.suppress(Exception):  # damaged metadata must not spoil the help
        return metadata_headers((record.origin.distribution if record else None) or "")["Summary"] or ""
    return ""
