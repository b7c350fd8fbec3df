"""Metadata of this checkout's packages for a machine on which none of them is installed, so that plugins are found."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = ["write"]

_TABLE = re.compile(r'^\[project\.entry-points\.(?:"([^"]+)"|(\S+))\]\n((?:[\w-]+ = ".*"\n)+)', re.MULTILINE)
_FIELD = '^{} = "(.+)"$'


def write(projects: list[Path], folder: Path) -> None:
    """A `.dist-info` in `folder` for each `pyproject.toml` whose distribution is not installed. Read as text: tomllib
    is not in every Python that torch runs on."""
    for project in projects:
        text = project.read_text(encoding="utf-8")
        name, number = (re.search(_FIELD.format(key), text, re.MULTILINE)[1] for key in ("name", "version"))  # type: ignore[index]
        try:
            version(name)
        except PackageNotFoundError:
            info = folder / f"{name.replace('-', '_')}-{number}.dist-info"
            info.mkdir(parents=True)
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n")
            tables = [f"[{quoted or bare}]\n{lines}" for quoted, bare, lines in _TABLE.findall(text)]
            (info / "entry_points.txt").write_text("\n".join(tables).replace('"', ""))
