"""The command in a process of its own that sees only the distributions a test makes.

The tests of core see core alone, those of devtools devtools as well.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import typer

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

__all__ = ["DEVTOOLS", "WIDE", "Command", "command_on", "libraries", "sources_of", "too_wide"]

DEVTOOLS = Path(__file__).parents[2] / "packages" / "sglang-platform-devtools"

WIDE = "1000"
"""Columns at which no line is broken."""

PLATFORM = """
from sglang_platform.core.contract import PlatformEnum, SRTPlatform
from sglang_platform.core.portable.torch.device import TorchDeviceMixin
class Platform(SRTPlatform, TorchDeviceMixin):
    _enum = PlatformEnum.OOT
    device_name = "made"
    device_type = "cpu"
"""


_ACTIVATE = """
from sglang_platform.core.discovery.entry import platform_plugin
@platform_plugin
def activate():
    {body}
"""


def sources_of(*names: str) -> list[str]:
    """The source folders of our distributions, as this process imports them."""
    return list(
        dict.fromkeys(
            str(Path(importlib.import_module(f"sglang_platform.{name}").__path__[0]).parents[1])
            for name in names
        )
    )


def too_wide(text: str, columns: int = 80) -> list[str]:
    """The lines that are wider than the terminal; one word behind a label may be as long as it is."""
    return [
        line
        for line in text.splitlines()
        if len(line) > columns and not re.fullmatch(r"\s*([\w ]+(:\s+|  +))?\S+", line)
    ]


class Command:
    """Runs `sglang-platform` on a folder of distributions."""

    def __init__(self, folder: Path, libraries: Path) -> None:
        self.folder = folder
        self._path = os.pathsep.join([str(folder), *sources_of("core", "devtools"), str(libraries)])

    def install(self, name: str, entry_points: Mapping[str, Mapping[str, str]], **modules: str) -> None:
        """Write the distribution `<name>-dist` and its modules."""
        info = self.folder / f"{name}_dist-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-dist\nVersion: 1.0\n")
        sections = [
            f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in e.items())
            for group, e in entry_points.items()
        ]
        (info / "entry_points.txt").write_text("\n".join(sections))
        for module, source in modules.items():
            (self.folder / f"{module}.py").write_text(textwrap.dedent(source))

    def platform(self, name: str, body: str) -> None:
        """Install a platform plugin whose `activate()` has this body."""
        self.install(
            name,
            {
                "sglang.srt.platforms": {name: f"{name}_plugin:activate"},
                "sglang_platform.contract": {name: "v1"},
            },
            **{f"{name}_plugin": _ACTIVATE.format(body=body), f"{name}_cls": PLATFORM},
        )

    def __call__(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        code = "from sglang_platform.core.cli import main; main()"
        clean = {name: value for name, value in os.environ.items() if not name.startswith("SGLANG_")}
        return subprocess.run(
            [sys.executable, "-S", "-c", code, *arguments],
            env={**clean, "PYTHONPATH": self._path, "COLUMNS": WIDE, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def json(self, *arguments: str, status: int = 0, **environment: str) -> Any:
        """The document that the command writes with `--json`."""
        run = self(*arguments, "--json", **environment)
        assert run.returncode == status, run.stdout + run.stderr
        return json.loads(run.stdout)


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command's own libraries, without the metadata of anything."""
    folder = tmp_path_factory.mktemp("libraries")
    for entry in Path(typer.__file__).parents[1].iterdir():
        if entry.suffix not in (".dist-info", ".egg-info", ".pth") and not entry.name.startswith("sglang"):
            (folder / entry.name).symlink_to(entry)
    return folder


def command_on(folder: Path, libraries: Path, *, devtools: bool) -> Command:
    """A command that sees core, with or without devtools."""
    folder.mkdir()
    made = Command(folder, libraries)
    installed = {"core": {"sglang.srt.plugins": {"sglang_platform_core": _CORE_PLUGIN}}}
    if devtools:
        installed["devtools"] = _ENTRY_POINTS
    for name, entry_points in installed.items():
        made.install(name, entry_points)
        info = folder / f"sglang_platform_{name}-1.0.dist-info"
        (folder / f"{name}_dist-1.0.dist-info").rename(info)
        metadata = info / "METADATA"
        metadata.write_text(metadata.read_text().replace(f"{name}-dist", f"sglang-platform-{name}"))
    return made


_CORE_PLUGIN = "sglang_platform.core.sglang.start.general_plugin:load"
_ENTRY_POINTS = tomllib.loads((DEVTOOLS / "pyproject.toml").read_text())["project"]["entry-points"]
