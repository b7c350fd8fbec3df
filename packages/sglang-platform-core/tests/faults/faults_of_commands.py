"""Faults of the subcommands that other distributions bring to `sglang-platform`, and of its reports."""

from __future__ import annotations

from fault_definition import Distribution, Fault

__all__ = ["FAULTS"]

APP = (
    "import typer\napp = typer.Typer()\n@app.callback(invoke_without_command=True)\ndef run(): print('ran')\n"
)


def _run(command: str) -> str:
    """An act: run the command, and see its exit status."""
    return f"""
import sys
sys.argv = ['sglang-platform', {command!r}]
from sglang_platform.core.cli import main
try:
    main()
except SystemExit as end:
    see(f"status {{end.code}}")
"""


def _fault(
    name: str, title: str, run: str, module: str, *says: str, status: int, command: str = "speak"
) -> Fault:
    """A distribution has the subcommand `command` in `module`; what is run is `run`."""
    return Fault(
        name,
        title,
        _run(run),
        "said" if says else "right",
        says,
        f"status {status}",
        distributions=(_brings(command, "ext"),),
        modules={"ext_command": module},
        not_in_host="no commands of plugins",
    )


def _brings(command: str, stem: str) -> Distribution:
    return Distribution(f"{stem}-dist", {"sglang_platform.cli": {command: f"{stem}_command:app"}})


FAULTS = [
    _fault(
        "command-raises",
        "a plugin's subcommand raises while it is imported",
        "speak",
        "raise OSError('no device')",
        "the subcommand 'speak' cannot be loaded",
        "speak (ext-dist 1.0)",
        "OSError: no device",
        status=2,
    ),
    _fault(
        "command-exits",
        "a plugin's subcommand ends the process while it is imported, and another is run",
        "list",
        "raise SystemExit(7)",
        status=0,
    ),
    _fault(
        "command-no-typer",
        "a plugin's subcommand is neither a function nor a typer.Typer",
        "speak",
        "app = 7",
        "the subcommand 'speak' cannot be loaded",
        "TypeError: ext_command:app is neither a function nor a typer.Typer",
        status=2,
    ),
    _fault(
        "command-parameter",
        "a plugin's subcommand has a parameter of a kind that cannot be typed, and another is run",
        "list",
        "import typer\napp = typer.Typer()\n@app.command()\ndef run(batch: int | str): ...\n",
        status=0,
    ),
    _fault(
        "command-empty",
        "a plugin's subcommand holds no command",
        "speak",
        "import typer\napp = typer.Typer()\n",
        "the subcommand 'speak' cannot be loaded",
        status=2,
    ),
    _fault(
        "command-built-in",
        "a plugin's subcommand is called like one of our own",
        "list",
        APP,
        "a subcommand is left out, since there is one of its name: list (ext-dist 1.0)",
        status=0,
        command="list",
    ),
    Fault(
        "command-twice",
        "two plugins bring a subcommand of one name",
        _run("speak"),
        "said",
        ("a subcommand is left out, since there is one of its name: speak (",),
        "status 0",
        distributions=(_brings("speak", "ext"), _brings("speak", "other")),
        modules={"ext_command": APP, "other_command": APP},
        not_in_host="no commands of plugins",
    ),
]
