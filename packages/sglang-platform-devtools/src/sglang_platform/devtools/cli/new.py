"""`sglang-platform new`: a platform package of one's own, by one of two roads."""

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
    torch_plugin: Annotated[
        str | None,
        typer.Option(
            "--torch-plugin",
            metavar="MODULE",
            help="Torch reaches the device by this module: nine files, no C++, that serve at once.",
        ),
    ] = None,
    with_driver: Annotated[
        bool,
        typer.Option("--with-driver", help="A copy of the example, with a torch device in C++. The default."),
    ] = False,
    device_type: Annotated[
        str | None,
        typer.Option(
            "--device-type", help="The type of torch.device; by default the torch plugin's, or the name."
        ),
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option("--dir", help="Where the package goes; by default a folder of the name, here."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """A platform package under your names, which serves at once: package, tests, CI.

    Two roads. `--torch-plugin MODULE`: torch reaches the device already, as through torch_npu; SGLang's and core's
    parts serve until you replace them. `--with-driver`, the default: a copy of the example device, whose C++ you
    replace by your driver.

    Exit status 1: the name or the device type cannot be, the folder exists, or the example is not installed.
    """
    from sglang_platform.devtools.template.copying import copy_example, write_plugin
    from sglang_platform.devtools.template.names import VendorNames

    if torch_plugin is not None and with_driver:
        raise typer.BadParameter("give --torch-plugin or --with-driver, not both")
    try:
        names = VendorNames.of(name, device_type, torch_plugin)
        target = directory if directory is not None else Path(names.name)
        files = (
            write_plugin(names, torch_plugin, target)
            if torch_plugin is not None
            else copy_example(names, target)
        )
    except PlatformError as error:
        print_refusal(error, as_json)
        raise typer.Exit(FOUND_A_PROBLEM) from None
    if as_json:
        told: dict[str, object] = {"folder": str(target), "files": sorted(map(str, files))}
        told |= {"distribution": names.distribution, "package": names.package, "platform": names.snake}
        told |= {"device_type": names.device_type, "torch_plugin": torch_plugin}
        print_json(told)
        return
    out = console()
    out.print(
        f"{target}: {len(files)} files; distribution {names.distribution}, import package {names.package}, "
        f"platform {names.snake!r}, torch device {names.device_type!r}"
    )
    out.print("\nIt works as it is. Next:\n")
    generate = "python -m sglang_platform.conformance.host.generate"
    for command in (
        f"cd {target} && pip install -e '.[test]'",
        f"SGLANG_PLATFORM={names.snake} sglang-platform info",
        f"{generate if torch_plugin is not None else 'sglang-platform conformance'} --platform {names.snake}",
    ):
        out.print(f"  {command}")
    out.print("\nThen replace one part at a time, and look again. README.md lists the parts.")
    if torch_plugin is None:
        out.print("If torch reaches your device already: --torch-plugin MODULE makes nine files without C++.")
