"""Throw-away distributions: real metadata folders with real modules, in a process that sees no others."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

import importlib_metadata
import packaging.requirements  # noqa: F401
import pytest
import rich.table  # noqa: F401
from command_runner import libraries

import sglang_platform.core
from sglang_platform.core import plugins
from sglang_platform.core.discovery import current

__all__ = ["Site", "libraries", "site"]

PLATFORMS = "sglang.srt.platforms"
GENERAL = "sglang.srt.plugins"
CONTRACT = "sglang_platform.contract"

PLATFORM_SOURCE = """
from sglang_platform.core.contract.srt import SRTPlatform
class Platform(SRTPlatform):
    device_name = {name!r}
"""


class Site:
    """A folder on sys.path into which distributions are put."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def module(self, name: str, source: str) -> None:
        """Write the module `name`; a dotted name makes its packages."""
        *packages, last = name.split(".")
        folder = self.folder
        for package in packages:
            folder = folder / package
            folder.mkdir(exist_ok=True)
            (folder / "__init__.py").touch()
        (folder / f"{last}.py").write_text(textwrap.dedent(source))
        importlib.invalidate_caches()

    def distribution(
        self,
        name: str,
        entry_points: Mapping[str, Mapping[str, str]],
        *,
        version: str = "1.0",
        requires: tuple[str, ...] = (),
    ) -> Path:
        """Write the metadata of a distribution."""
        info = self.folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        (info / "METADATA").write_text(
            "\n".join([*lines, *(f"Requires-Dist: {line}" for line in requires), ""])
        )
        sections = [
            f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items())
            for group, entries in entry_points.items()
        ]
        (info / "entry_points.txt").write_text("\n".join(sections))
        return info

    def platform(
        self, name: str, activate: str = "", *, contract: str | None = "v1", **metadata: object
    ) -> None:
        """A distribution `<name>-dist` with the platform `name`: `<name>_plugin:activate` runs the given body."""
        module = f"{name}_plugin"
        body = textwrap.indent(textwrap.dedent(activate or f"return '{module}_cls:Platform'"), "    ")
        self.module(
            module,
            "from sglang_platform.core.discovery.entry import platform_plugin\n"
            "from sglang_platform.core.errors import PlatformUnavailable\n"
            f"@platform_plugin\ndef activate():\n{body}\n",
        )
        self.module(f"{module}_cls", PLATFORM_SOURCE.format(name=name))
        groups = {PLATFORMS: {name: f"{module}:activate"}}
        if contract is not None:
            groups[CONTRACT] = {name: contract}
        self.distribution(f"{name}-dist", groups, **metadata)  # type: ignore[arg-type]

    def run(self, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run `code` in a process of its own that sees this site and no installed plugin."""
        source = str(Path(sglang_platform.core.__path__[0]).parents[1])
        libraries = str(Path(importlib_metadata.__file__).parents[1])
        # The libraries are importable, but stand where no metadata is looked for.
        prelude = (
            "import sys\n"
            f"sys.path.append({libraries!r})\n"
            "import importlib_metadata, packaging.requirements\n"
            f"sys.path.remove({libraries!r})\n"
        )
        return subprocess.run(
            [sys.executable, "-S", "-c", prelude + textwrap.dedent(code)],
            env={**_clean(os.environ), "PYTHONPATH": f"{self.folder}:{source}", **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )


def _clean(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if not name.startswith("SGLANG_")}


def _holds_metadata(entry: str) -> bool:
    return any(Path(entry or ".").glob("*.dist-info"))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A site of this process, with no other distribution installed, no variable set and nothing resolved."""
    made = Site(tmp_path / "site")
    for name in set(os.environ) - set(_clean(os.environ)):
        monkeypatch.delenv(name)
    others = [entry for entry in sys.path if not _holds_metadata(entry)]
    monkeypatch.setattr(sys, "path", [str(made.folder), *others])
    for host in ("sglang.srt.platforms", "sglang.multimodal_gen.runtime.platforms"):
        monkeypatch.delitem(sys.modules, host, raising=False)
    before = set(sys.modules)
    current.reset()
    current.diffusion_process.reset()
    plugins.reset()
    yield made
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]
    current.reset()
    current.diffusion_process.reset()
    plugins.reset()
