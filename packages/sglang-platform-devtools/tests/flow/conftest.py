"""Small releases of a host called `sglang`, as folders that can be imported."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # guard_forms, which several files read

__all__ = ["RELEASES", "hosts", "write_host"]

RELEASES = ("0.5.9", "0.5.11", "0.5.20", "0.5.23")


def write_host(folder: Path, version: str) -> Path:
    """A release: from 0.5.20 on with the new names, before with the old."""
    is_new = tuple(map(int, version.split("."))) >= (0, 5, 20)
    age = "new" if is_new else "old"
    srt = folder / "sglang" / "srt"
    srt.mkdir(parents=True)
    (folder / "sglang" / "__init__.py").write_text("from sglang.version import __version__\n")
    (folder / "sglang" / "version.py").write_text(f'__version__ = "{version}"\n')
    (srt / "__init__.py").write_text("")
    (srt / f"{age}.py").write_text("def x(): ...\n")
    since = "    def since_new(self): ...\n" if is_new else ""
    (srt / "moved.py").write_text(
        f"def same({'more=None' if is_new else ''}): ...\n\ndef name_{age}(function=None): ...\n\n"
        f"class Class{age.title()}: ...\n\nclass Always:\n    def always(self): ...\n{since}"
    )
    info = folder / f"sglang-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: sglang\nVersion: {version}\n")
    return folder


@pytest.fixture(scope="session")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folder of each release."""
    return {one: write_host(tmp_path_factory.mktemp(f"host_{one}"), one) for one in RELEASES}
