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
def report(as_json: JsonOption = False) -> None:
    """Load the plugins in this process and show each hook, SGLang's registry's too, with its plugin, target and state.

    No target is imported for it, so that most hooks are pending. Exit status 1: a plugin or a hook failed.
    """
    from sglang_platform.core.hooks.registry import HookRegistry
    from sglang_platform.core.hooks.report import as_text
    from sglang_platform.core.plugins import load_plugins
    from sglang_platform.core.sglang.evidence.host_registry import as_rows

    error = None
    try:
        with quiet_plugins():
            load_plugins()
    except PlatformError as refusal:
        error = refusal
    rows: list[Any] = [*HookRegistry.report(), *as_rows()]
    if as_json and error is None:
        print_json({"hooks": rows})
    elif not as_json:
        console().print(as_text(rows) or "no hook is registered", markup=False)
    if error is not None:
        print_refusal(error, as_json)
    if error is not None or any(row["state"] == "failed" for row in rows):
        raise typer.Exit(FOUND_A_PROBLEM)
