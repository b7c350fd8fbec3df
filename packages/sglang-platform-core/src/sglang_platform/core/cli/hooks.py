"""`sglang-platform hooks`: the hooks that the installed plugins register."""

from __future__ import annotations

from typing import Any

import typer

from sglang_platform.core.cli.extensions import ExtensibleHooks
from sglang_platform.core.cli.output import (
    FOUND_A_PROBLEM,
    JsonOption,
    console,
    print_json,
    print_refusal,
    quiet_plugins,
)
from sglang_platform.core.cli.plugin_argument import PluginArgument, named_or_exit
from sglang_platform.core.errors import PlatformError

__all__ = ["hooks"]

# Imports inside functions: every `sglang-platform` command imports this file, and only its own needs the rest.

hooks = typer.Typer(
    cls=ExtensibleHooks, help="The hooks that the installed plugins register.", no_args_is_help=True
)


@hooks.callback()
def _group() -> None:
    """Keeps `report` a subcommand while it is the only one."""


@hooks.command("report")
def report(plugin: PluginArgument = None, as_json: JsonOption = False) -> None:
    """Load the plugins in this process and show each hook, SGLang's registry's too, with its plugin, target and state.

    No target is imported for it, so that most hooks are pending.

    Exit status 1: a plugin or a hook failed. 2: the plugin named is not installed.
    """
    from sglang_platform.core.hooks.registry import HookRegistry
    from sglang_platform.core.plugins import load_plugins
    from sglang_platform.core.sglang.evidence.host_registry import as_rows

    named = named_or_exit(plugin, as_json)
    error = None
    try:
        with quiet_plugins():
            load_plugins()
    except PlatformError as refusal:
        error = refusal
    rows: list[Any] = [*HookRegistry.report(), *as_rows()]
    if named is not None:
        rows = [row for row in rows if row["distribution"] == named.distribution]
    if as_json and error is None:
        print_json({"hooks": rows})
    elif not as_json:
        _print(rows)
    if error is not None:
        print_refusal(error, as_json)
    if error is not None or any(row["state"] == "failed" for row in rows):
        raise typer.Exit(FOUND_A_PROBLEM)


def _print(rows: list[Any]) -> None:
    out = console()
    if not rows:
        out.print("no hook is registered")
    for row in rows:
        fields = [("hook", row["hook"]), ("plugin", row["plugin"]), ("why", row["why"])]
        fields += [("not reached", name) for name in row["unreached"]]
        out.block(f"{row['state']} {row['type']} {row['target']}", fields)
