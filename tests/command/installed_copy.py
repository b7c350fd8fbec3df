"""Our distributions as a wheel installs them, copied from their sources into a folder, with a RECORD."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import shutil
from pathlib import Path

__all__ = ["install_copy"]

PACKAGES = Path(__file__).parents[2] / "packages"
_MODULES = {
    "sglang-platform-core": "sglang_platform/core",
    "sglang-platform-example-oot": "sglang_platform/example_oot",
}


def install_copy(distribution: str, site: Path) -> Path:
    """Put a distribution into `site`, with what its metadata in this environment says; returns its package's folder."""
    module = _MODULES[distribution]
    source = PACKAGES / distribution / "src" / module
    shutil.copytree(source, site / module, ignore=shutil.ignore_patterns("__pycache__", "around_the_package"))
    found = importlib.metadata.distribution(distribution)
    info = site / f"{distribution.replace('-', '_')}-{found.version}.dist-info"
    info.mkdir()
    for name in ("METADATA", "entry_points.txt"):
        (info / name).write_text(found.read_text(name) or "")
    files = [one for folder in (site / module, info) for one in folder.rglob("*") if one.is_file()]
    lines = [_recorded(one, site) for one in sorted(files)]
    (info / "RECORD").write_text("\n".join([*lines, f"{info.name}/RECORD,,\n"]))
    return site / module


def _recorded(file: Path, site: Path) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(file.read_bytes()).digest()).rstrip(b"=").decode()
    return f"{file.relative_to(site).as_posix()},sha256={digest},{file.stat().st_size}"
