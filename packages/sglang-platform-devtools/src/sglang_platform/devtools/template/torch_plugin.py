"""A platform package for a device that a torch plugin brings: its files, and its device type, asked of the plugin.

The plugin is imported in an interpreter of its own, which runs this file and has nothing of this project.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

__all__ = ["device_type_of", "plugin_files", "requirement_of"]

# Imports inside functions: the other interpreter may not have this project, and only it imports torch.

_SUFFIX = ".in"


def device_type_of(module: str, wanted: str | None) -> str:
    """The device type that the torch plugin `module` registers, or `wanted` where torch knows it with the plugin.

    A plugin that cannot be imported here leaves `wanted` unasked. Raises ConfigurationError without either.
    """
    from sglang_platform.core.contract.values import value_problem
    from sglang_platform.core.errors import ConfigurationError
    from sglang_platform.devtools.template.torch_device import asked_of_torch

    named = all(part.isidentifier() for part in module.split("."))
    problem = None if wanted is None else value_problem("device_type", wanted)
    if not named or problem is not None:
        raise ConfigurationError(
            f"{wanted!r} cannot be a torch device type" if named else f"{module!r} cannot be a torch plugin",
            why=f"it {problem}" if named else "it is no name of a module, such as torch_npu",
            fix="nothing was written",
        )
    told = asked_of_torch(Path(__file__), f"which device {module} brings", module, wanted or "")
    if told["known"]:
        return str(told["known"])
    if wanted is not None and told["failed"]:
        return wanted
    fix = "name the module that registers the device with torch when it is imported"
    if told["failed"]:
        fix = f"install {module} here until `python -c 'import {module}'` works, or name the type with --device-type"
    elif told["registered"]:
        fix = f"leave out --device-type: {module} registers {told['registered']!r}"
    raise ConfigurationError(
        f"{module} brings no device" + (f" of type {wanted!r}" if wanted else ""),
        why=told["failed"] or told["refused"] or f"torch has no new device after `import {module}`",
        fix=f"{fix}; nothing was written",
    )


def plugin_files(words: dict[str, str]) -> Iterator[tuple[Path, str]]:
    """(path in the project, text) of every file; `words` replaces each `@word@` in both."""

    def filled(text: str) -> str:
        return re.sub(r"@(\w+)@", lambda found: words[found[1]], text)

    folder = Path(__file__).parent / "torch_plugin_files"
    for file in sorted(folder.rglob(f"*{_SUFFIX}")):
        place = file.relative_to(folder).as_posix().removesuffix(_SUFFIX)
        yield Path(filled(place)), filled(file.read_text(encoding="utf-8"))


def requirement_of(module: str) -> str:
    """The distribution that has the module, or a likely name for it where it is not installed."""
    top = module.partition(".")[0]
    return packages_distributions().get(top, [top.replace("_", "-")])[0]


def _answer(module: str, wanted: str) -> dict[str, Any]:
    """Runs in the other interpreter. `known`: the device type, if torch has it after the plugin is imported."""
    import torch

    told: dict[str, Any] = {"known": None, "registered": None, "failed": None, "refused": None}
    try:
        importlib.import_module(module)
    except Exception as error:  # noqa: BLE001 - a vendor's module may raise anything
        said = str(error).partition("\n")[0]
        return {**told, "failed": f"import {module}: {type(error).__name__}: {said}"}
    name = torch._C._get_privateuse1_backend_name()
    built_in = torch.accelerator.current_accelerator()
    told["registered"] = name if name != "privateuseone" else built_in and built_in.type
    chosen = wanted or told["registered"]
    try:
        told["known"] = chosen and torch.get_device_module(torch.device(chosen)) and chosen
    except RuntimeError as error:
        told["refused"] = str(error).splitlines()[0]
    return told


if __name__ == "__main__":
    print(json.dumps(_answer(*sys.argv[1:])))
