"""`command`, and `wheel`: a wheel of SGLang that has nothing but its recorded metadata."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from command_runner import Command, command_on, libraries

__all__ = ["command", "libraries", "wheel"]

METADATA = Path(__file__).parent / "metadata"


@pytest.fixture
def command(tmp_path: Path, libraries: Path) -> Command:
    return command_on(tmp_path / "site", libraries, devtools=True)


@pytest.fixture
def wheel(tmp_path: Path) -> Callable[..., Path]:
    """Makes `sglang-VERSION-py3-none-any.whl` in a folder of its own, with further `Requires-Dist` lines."""

    def make(version: str, *further: str, name: str = "sglang") -> Path:
        text = (METADATA / f"sglang-{version}.txt").read_text().replace("Name: sglang", f"Name: {name}")
        path = tmp_path / "wheels" / f"{name}-{version}-py3-none-any.whl"
        path.parent.mkdir(exist_ok=True)
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("sglang/__init__.py", "")
            lines = "".join(f"Requires-Dist: {one}\n" for one in further)
            archive.writestr(f"{name}-{version}.dist-info/METADATA", text + lines)
        return path

    return make
