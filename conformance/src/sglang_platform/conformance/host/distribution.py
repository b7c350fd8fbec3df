"""A distribution that is only metadata, written into a folder: a plugin that is there for some processes only."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

__all__ = ["path_with", "write_distribution"]


def write_distribution(folder: Path, name: str, entry_points: Mapping[str, str]) -> None:
    """Write version 1.0 of distribution `name`. `entry_points`: a line `plugin = module:function` by group."""
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "".join(f"[{group}]\n{line}\n" for group, line in entry_points.items())
    )


def path_with(folder: Path) -> str:
    """PYTHONPATH of this process with `folder` first."""
    return os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
