"""Writes a vendor's package: the example's files under the vendor's names, or those for a device of a torch plugin."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from sglang_platform.core.contract.drift import NEWEST
from sglang_platform.core.errors import ConfigurationError
from sglang_platform.core.installed.distributions import installed_version
from sglang_platform.devtools.template.names import VendorNames
from sglang_platform.devtools.template.source import example_files
from sglang_platform.devtools.template.torch_plugin import plugin_files, requirement_of

__all__ = ["copy_example", "write_plugin"]

# Markers of parts that apply to the example only and are not copied.
_BEGIN, _END = "# example only:", "# end of example only"


def copy_example(names: VendorNames, target: Path) -> list[Path]:
    """Write a copy of the example to the folder `target`; returns its files."""
    texts = ((place.as_posix(), _without_example_parts(file.read_text())) for place, file in example_files())
    return _write(target, ((Path(names.replace(place)), names.replace(text)) for place, text in texts))


def write_plugin(names: VendorNames, module: str, target: Path) -> list[Path]:
    """Write a package for the device of the torch plugin `module` to the folder `target`; returns its files."""
    major, minor = (installed_version("sglang-platform-core") or "0.1").split(".")[:2]
    words = {
        "name": names.name,
        "platform": names.snake,
        "distribution": names.distribution,
        "package": names.package,
        "classes": names.classes,
        "device_type": names.device_type,
        "module": module,
        "top": module.partition(".")[0],
        "requirement": requirement_of(module),
        "range": f">={major}.{minor},<{major}.{int(minor) + 1}",
        "sglang": NEWEST,
    }
    return _write(target, plugin_files(words))


def _write(target: Path, files: Iterable[tuple[Path, str]]) -> list[Path]:
    """The folder is created atomically. Raises ConfigurationError if it exists: files are never overwritten."""
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
    written = []
    try:
        for place, text in files:
            file = staging / place
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            written.append(target / place)
        staging.chmod(0o755)
        staging.rename(target)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    return written


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
