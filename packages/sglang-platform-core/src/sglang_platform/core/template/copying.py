"""Writes the copy: the example's files under the vendor's names."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from sglang_platform.core.errors import ConfigurationError
from sglang_platform.core.template.names import VendorNames
from sglang_platform.core.template.source import example_files

__all__ = ["copy_example"]

# Markers of parts that apply to the example only and are not copied.
_BEGIN, _END = "# example only:", "# end of example only"


def copy_example(names: VendorNames, target: Path) -> list[Path]:
    """Write the copy to the folder `target`; returns its files.

    The folder is created atomically. Raises ConfigurationError if it exists: a vendor's files are never overwritten.
    """
    if target.exists() or target.is_symlink():
        raise ConfigurationError(
            f"{target} exists already",
            why="a copy never goes over what is there",
            fix="give another --dir, or move that folder away",
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise ConfigurationError(
            f"{target} cannot be written", why=str(error), fix="give another --dir"
        ) from None
    try:
        written = [_write(names, staging, place, source) for place, source in example_files()]
        staging.chmod(0o755)
        staging.rename(target)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    return [target / path for path in written]


def _write(names: VendorNames, folder: Path, place: Path, source: Path) -> Path:
    renamed = Path(names.replace(place.as_posix()))
    file = folder / renamed
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(names.replace(_without_example_parts(source.read_text())))
    return renamed


def _without_example_parts(text: str) -> str:
    kept, dropping = [], False
    for line in text.splitlines(keepends=True):
        if _BEGIN in line:
            dropping = True
        if not dropping:
            kept.append(line)
        if _END in line:
            dropping = False
    return "".join(kept)
