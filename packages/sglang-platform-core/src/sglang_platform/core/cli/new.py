"""`sglang-platform new`: a platform package of one's own, copied from the example device."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sglang_platform.core.cli.output import FOUND_A_PROBLEM, JsonOption, console, print_json, print_refusal
from sglang_platform.core.errors import PlatformError

__all__ = ["new"]

# Imports inside functions: every `sglang-platform` command imports this file, and only its own needs the rest.


def new(
    name: Annotated[str, typer.Argument(help="The platform's name, as in my-device.")],
    device_type: Annotated[
        str | None,
        typer.Option(
            "--device-type", help="The type of torch.device; by default the name, with underscores."
        ),
    ] = None,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Where the copy goes; by default a folder of the name, here.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """A working copy of the example device under your names: package, tests, nox sessions, CI.

    Exit status 1: the name cannot be, the folder exists, or the example is not installed.
    """
    from sglang_platform.core.template.copying import copy_example
    from sglang_platform.core.template.names import VendorNames

    try:
        names = VendorNames.of(name, device_type)
        target = directory if directory is not None else Path(names.name)
        files = copy_example(names, target)
    except PlatformError as error:
        print_refusal(error, as_json)
        raise typer.Exit(FOUND_A_PROBLEM) from None
    if as_json:
        told: dict[str, object] = {"folder": str(target), "files": sorted(map(str, files))}
        told |= {"distribution": names.distribution, "package": names.package, "platform": names.snake}
        told |= {"device_type": names.device_type}
        print_json(told)
        return
    out = console()
    out.print(
        f"{target}: {len(files)} files; distribution {names.distribution}, import package {names.package}, "
        f"platform {names.snake!r}, torch device {names.device_type!r}"
    )
    out.print("\nIt works as it is. Next:\n")
    for command in (
        f"cd {target} && pip install -e '.[test]'",
        f"SGLANG_PLATFORM={names.snake} sglang-platform info",
        f"sglang-platform conformance --platform {names.snake}",
    ):
        out.print(f"  {command}")
    out.print("\nThen replace part by part; the first lines of every file say what. README.md lists them.")
