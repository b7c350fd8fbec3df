"""What is wrong with a folder of wheels for the machine with the card: another Python's, or a requirement missing.

    python benchmarks/gpu_carry.py FOLDER [--python 3.12]

Needs `packaging`. The wheels must be for this machine's platform, which is taken to be that of the other machine.
"""

from __future__ import annotations

import argparse
import sys
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.tags import compatible_tags, cpython_tags
from packaging.utils import canonicalize_name, parse_wheel_filename

__all__ = ["faults"]

ON_THE_MACHINE = frozenset(("numpy", "torch", "triton"))
"""What the machine with the card has."""


def faults(folder: Path, python: str) -> Iterator[str]:
    """One line for each wheel that Python `python` cannot import, and for each requirement that no wheel meets."""
    version = [int(part) for part in python.split(".")]
    tags = {*cpython_tags(version), *compatible_tags(version)}
    environment = {**default_environment(), "python_version": python, "python_full_version": f"{python}.0"}
    wheels = sorted(folder.glob("*.whl"))
    if not wheels:
        yield f"{folder} holds no wheel"
    held = {}
    for wheel in wheels:
        name, number, _, of_wheel = parse_wheel_filename(wheel.name)
        held[name] = number
        if not tags & of_wheel:
            yield f"{wheel.name} is not for Python {python}"
    for wheel in wheels:
        for text in _requirements(wheel):
            need = Requirement(text)
            if need.marker is not None and not need.marker.evaluate({**environment, "extra": ""}):
                continue
            name = canonicalize_name(need.name)
            if name in ON_THE_MACHINE:
                continue
            if name not in held:
                yield f"{wheel.name} requires {need.name}, of which there is no wheel"
            elif not need.specifier.contains(held[name], prereleases=True):
                yield f"{wheel.name} requires {need.name}{need.specifier}, the wheel is of {held[name]}"


def _requirements(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        metadata = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(metadata).decode("utf-8")).get_all("Requires-Dist") or []


def main() -> int:
    """Print what is wrong; 1 if anything is."""
    parser = argparse.ArgumentParser(prog="gpu_carry.py")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", default="3.12", help="of the machine with the card")
    options = parser.parse_args()
    found = list(faults(options.folder, options.python))
    print(
        "\n".join(found)
        or f"{options.folder}: every wheel is for Python {options.python}, and none is missing"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
