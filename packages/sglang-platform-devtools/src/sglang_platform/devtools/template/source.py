"""The files of the example device, from its sources or from the wheel, which carries all of them."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

from sglang_platform.core.errors import ConfigurationError

__all__ = ["example_files"]

_PACKAGE = "sglang_platform.example_oot"
_IN_SOURCES = Path("src/sglang_platform/example_oot")
# In the wheel the files around the package lie in a folder of the package.
_IN_WHEEL = "around_the_package"
_AROUND = (
    "pyproject.toml",
    "noxfile.py",
    "README.md",
    "CHANGELOG.md",
    "LICENSE",
    ".github/workflows/ci.yml",
    ".pre-commit-config.yaml",
    "tests",
)
_LEFT_OUT = {"__pycache__", _IN_WHEEL, "build", "dist"}


def example_files() -> Iterator[tuple[Path, Path]]:
    """(path in the example's project, file to read) of every file to copy.

    Raises ConfigurationError if the example is not installed or is incomplete.
    """
    package = _package_folder()
    around = package / _IN_WHEEL
    if not around.is_dir():
        around = package.parents[len(_IN_SOURCES.parts) - 1]
    missing = [name for name in _AROUND if not (around / name).exists()]
    if missing:
        raise ConfigurationError(
            "the installed example device is not whole, so it cannot be copied",
            why=f"{', '.join(missing)} not found in {around}",
            fix="install sglang-platform-example-oot again, from a checkout or a wheel",
        )
    for file in _files(package):
        yield _IN_SOURCES / file.relative_to(package), file
    for name in _AROUND:
        path = around / name
        for file in _files(path) if path.is_dir() else [path]:
            yield file.relative_to(around), file


def _package_folder() -> Path:
    spec = importlib.util.find_spec(_PACKAGE)  # finds without importing it
    if spec is None or spec.origin is None:
        raise ConfigurationError(
            "the example device, which a new platform starts from, is not installed",
            fix="install sglang-platform-example-oot, from a checkout or a wheel",
        )
    return Path(spec.origin).parent


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name in _LEFT_OUT or path.suffix == ".pyc":
            continue
        if path.is_dir():
            yield from _files(path)
        else:
            yield path
