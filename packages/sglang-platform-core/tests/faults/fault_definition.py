"""What a fault is: a small real set-up, what is done with it, and how that must end.

The set-up says `from framework import ...`, which is made an import from sglang-platform or from SGLang, so that one
text runs on both. It reports what happened with `see(text)`.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = [
    "CHOSEN",
    "DOCTOR",
    "ENDS",
    "GENERAL",
    "PLATFORMS",
    "Distribution",
    "Fault",
    "chosen_fault",
    "dev_fault",
    "general",
    "module_text",
    "platform",
    "write",
]

PLATFORMS = "sglang.srt.platforms"
GENERAL = "sglang.srt.plugins"
CONTRACT = "sglang_platform.contract"

_MODULES = Path(__file__).parent / "modules"

CHOSEN = "chosen()"
"""An act: see which platform the process has."""

DOCTOR = """
import sys
sys.argv = ['sglang-platform', 'doctor']
from sglang_platform.core.cli import main
main()
"""
"""An act: run `sglang-platform doctor`."""

ENDS = {
    "right": "right",
    "warning": "right, with a warning",
    "report": "reported by name",
    "trace": "right, and the reason is kept",
    "doctor": "found by `doctor`",
    "said": "said by the command",
}
"""How a fault that is no error may end; any other end is the name of an exception class."""


@dataclass(frozen=True)
class Distribution:
    """The metadata of a throw-away distribution."""

    name: str
    entry_points: Mapping[str, Mapping[str, str]]
    modules: Mapping[str, str] = field(default_factory=dict)
    version: str = "1.0"
    requires: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fault:
    """One row of the table.

    `ends`: an exception class of ours, or a key of `ENDS`. `says`: parts of the error's message, or of the warnings,
    the hook report, the trace, the doctor's output or a command's standard error; the first is the excerpt in the
    comparison. `seen`: what `see` was told; None where an error is the only right end. `files` are written last, over
    those of the distributions and modules. `not_in_host` says which feature SGLang does not have.
    """

    name: str
    title: str
    act: str
    ends: str
    says: tuple[str, ...] = ()
    seen: str | None = None
    plugin: str | None = None
    distributions: tuple[Distribution, ...] = ()
    modules: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    not_in_host: str | None = None

    @property
    def is_error(self) -> bool:
        return self.ends not in ENDS


def chosen_fault(name: str, title: str, ends: str, *says: str, **rest: object) -> Fault:
    """A fault that shows in which platform the process has, unless `act` among the rest says otherwise."""
    return Fault(name, title, str(rest.pop("act", CHOSEN)), ends, says, **rest)  # type: ignore[arg-type]


def dev_fault(name: str, title: str, ends: str, said: str, **rest: object) -> Fault:
    """A fault of the platform `dev`, which is installed right unless `distributions` among the rest says otherwise.

    `said` is a part of the error's message, or what is seen where all is right.
    """
    rest = {"distributions": (platform("dev"),), **rest}
    if ends == "right":
        return chosen_fault(name, title, ends, seen=said, **rest)
    if ends in ("PluginFailed", "NotAPlatformClass", "ContractError", "ReentrantResolution"):
        rest["plugin"] = "dev (dev-dist 1.0)"
    return chosen_fault(name, title, ends, said, **rest)


def module_text(name: str) -> str:
    """A file of `modules/`, to be written into a fault's folder."""
    return (_MODULES / f"{name}.py").read_text()


_DECORATED = """
from framework import platform_plugin
activate = platform_plugin(activate)
"""


def platform(
    name: str,
    activate: str | None = None,
    *,
    contract: str | None = "v1",
    entry_point: str | None = None,
    head: str = "",
    cls: str | None = None,
    distribution: str | None = None,
    groups: Mapping[str, Mapping[str, str]] | None = None,
    version: str = "1.0",
    requires: tuple[str, ...] = (),
) -> Distribution:
    """A distribution with the platform `name`; `activate` is the body of its function, `cls` its class's module."""
    module = f"{name}_plugin"
    body = textwrap.indent(textwrap.dedent(activate or f"return '{name}_cls:Platform'").strip(), "    ")
    default_cls = (
        f"from framework import SRTPlatform\nclass Platform(SRTPlatform):\n    device_name = {name!r}\n"
    )
    entry_points = {PLATFORMS: {name: entry_point or f"{module}:activate"}, **(groups or {})}
    if contract is not None:
        entry_points[CONTRACT] = {name: contract}
    return Distribution(
        distribution or f"{name}-dist",
        entry_points,
        {
            module: f"{textwrap.dedent(head)}\ndef activate():\n{body}\n{_DECORATED}",
            f"{name}_cls": textwrap.dedent(cls) if cls is not None else default_cls,
        },
        version,
        requires,
    )


def general(
    name: str,
    register: str,
    *,
    distribution: str | None = None,
    entry_point: str | None = None,
    contract: str | None = None,
    requires: tuple[str, ...] = (),
) -> Distribution:
    """A distribution with the general plugin `name`; `register` is the body of its function."""
    module = f"{name}_hooks"
    body = textwrap.indent(textwrap.dedent(register).strip(), "    ")
    entry_points = {GENERAL: {name: entry_point or f"{module}:register"}}
    if contract is not None:
        entry_points[CONTRACT] = {name: contract}
    head = "from framework import HookRegistry, HookType"
    return Distribution(
        distribution or f"{name}-dist",
        entry_points,
        {module: f"{head}\ndef register():\n{body}\n"},
        "1.0",
        requires,
    )


def write(fault: Fault, folder: Path, home: Callable[[str], str]) -> None:
    """Put the fault's distributions and modules into `folder`, and what is to be done into `act.py`.

    `home` is the module from which a name of the framework is imported.
    """
    folder.mkdir(parents=True)
    modules = {"touch": module_text("touch"), **fault.modules}
    for distribution in fault.distributions:
        modules.update(distribution.modules)
        _write_metadata(distribution, folder)
    for name, source in modules.items():
        is_package = any(other.startswith(f"{name}.") for other in modules)
        path = folder.joinpath(*name.split("."), "__init__.py") if is_package else _file(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_with_imports(source, home))
    (folder / "act.py").write_text(_with_imports(fault.act, home))
    for name, content in fault.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _with_imports(source: str, home: Callable[[str], str]) -> str:
    """The source with its imports from `framework` made real ones, on the same lines."""

    def real(found: re.Match[str]) -> str:
        return "; ".join(f"from {home(name)} import {name}" for name in found[1].split(", "))

    return re.sub(r"from framework import (\w+(?:, \w+)*)", real, textwrap.dedent(source))


def _file(folder: Path, name: str) -> Path:
    *packages, last = name.split(".")
    for package in packages:
        folder = folder / package
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").touch()
    return folder / f"{last}.py"


def _write_metadata(distribution: Distribution, folder: Path) -> None:
    stem = f"{distribution.name.replace('-', '_')}-{distribution.version}.dist-info"
    (folder / stem).mkdir()
    header = [f"Name: {distribution.name}", f"Version: {distribution.version}"]
    lines = ["Metadata-Version: 2.1", *header, *(f"Requires-Dist: {one}" for one in distribution.requires)]
    (folder / stem / "METADATA").write_text("\n".join([*lines, ""]))
    sections = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for group, entries in distribution.entry_points.items()
    ]
    (folder / stem / "entry_points.txt").write_text("\n".join(sections))
