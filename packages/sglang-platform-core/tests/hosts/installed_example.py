"""A plugin of `docs/examples` as if it were installed."""

from __future__ import annotations

import os
from pathlib import Path

import tomllib

__all__ = ["EXAMPLES", "installed"]

EXAMPLES = Path(__file__).parents[4] / "docs" / "examples"


def installed(folder: Path, name: str) -> str:
    """A PYTHONPATH on which the example is installed: its sources, and its metadata as pip would write it."""
    project = tomllib.loads((EXAMPLES / name / "pyproject.toml").read_text())["project"]
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    groups = project["entry-points"].items()
    (info / "entry_points.txt").write_text(
        "".join(f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in names.items()) for group, names in groups)
    )
    return os.pathsep.join([str(folder), str(EXAMPLES / name / "src"), os.environ.get("PYTHONPATH", "")])
