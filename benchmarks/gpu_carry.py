"""The folder to bring to a machine with a card: a light SGLang and all that it and our packages import there.

    python benchmarks/gpu_carry.py FOLDER [--host 0.5.15] [--python 3.12] [--machine LIST] [--check]

Writes wheels for that Python, SGLang's without diffusion, and SGLang's Triton kernels as peers; `--check` writes
nothing. Then it says what is wrong: a wheel of another Python, a requirement that neither a wheel nor the machine
meets, a module that a serving process imports and would not find, more than 64 MiB with the checkout. LIST has a line
for each distribution of the machine; by default it is `gpu_machine.txt`.

Run it where SGLang, torch, Triton and our packages are installed, on the platform of the other machine. Compiled
wheels are another Python's: their counterparts for this one go into FOLDER-here, for the imports and the rehearsal.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import gpu_environment
import gpu_peers
from gpu_light import (
    WITHOUT,
    collect,
    collect_counterparts,
    installed_on,
    is_met,
    metadata_needs,
    needs,
    of_our_packages,
)
from packaging.tags import compatible_tags, cpython_tags
from packaging.utils import canonicalize_name, parse_wheel_filename

__all__ = ["faults"]

HERE = Path(__file__).resolve().parent
MOST = 64 << 20
"""Bytes of the checkout and the folder."""


def faults(folder: Path, python: str, machine: Mapping[str, str]) -> Iterator[str]:
    """One line for each wheel that Python `python` cannot import, and for each requirement that nothing meets."""
    version = [int(part) for part in python.split(".")]
    tags = {*cpython_tags(version), *compatible_tags(version)}
    wheels = sorted(folder.glob("*.whl"))
    if not wheels:
        yield f"{folder} holds no wheel"
    held = {}
    for wheel in wheels:
        name, number, _, of_wheel = parse_wheel_filename(wheel.name)
        held[str(name)] = str(number)
        if not tags & of_wheel:
            yield f"{wheel.name} is not for Python {python}"
    asked = {wheel.name: metadata_needs(wheel, python) for wheel in wheels}
    asked["this checkout"] = list(needs(of_our_packages(), python))
    for who, wanted in asked.items():
        for need in wanted:
            name = canonicalize_name(need.name)
            if name in WITHOUT or is_met(need, held) or (name not in held and is_met(need, machine)):
                continue
            found = f"the wheel is of {held[name]}" if name in held else _on(machine, name)
            yield f"{who} requires {need}, {found}"


def _on(machine: Mapping[str, str], name: str) -> str:
    there = f"the machine has {machine[name]}" if name in machine else "nor does the machine have it"
    return f"of which there is no wheel, {there}"


def failing_imports(folder: Path, machine: Path) -> Iterator[str]:
    """The modules of a serving process that do not import with the folder and the machine's distributions alone."""
    with tempfile.TemporaryDirectory() as scratch:
        environment = gpu_environment.build(Path(scratch), carry=folder, hide_all_but=machine)
        program = [sys.executable, "-W", "ignore", str(HERE / "gpu_rehearsal" / "imports.py")]
        done = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        yield from done.stdout.splitlines() or done.stderr.splitlines()[-3:]


def size(folder: Path) -> int:
    """Bytes of the files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def size_of_checkout() -> int:
    """Bytes of the files that git knows or does not ignore."""
    command = ["git", "-C", str(HERE.parent), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
    paths = [HERE.parent / name for name in names if name]
    return sum(path.stat().st_size for path in paths if path.is_file())


def main() -> int:
    """Write the folder and print what is wrong; 1 if anything is."""
    parser = argparse.ArgumentParser(prog="gpu_carry.py", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--host", default="0.5.15", help="a release of SGLang whose torch is the machine's")
    parser.add_argument("--python", default="3.12", help="of the machine with the card")
    parser.add_argument("--machine", type=Path, default=HERE / "gpu_machine.txt")
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args()
    folder, machine = options.folder.resolve(), installed_on(options.machine)
    if not options.check:
        shutil.rmtree(folder, ignore_errors=True)
        collect(folder, options.host, options.python, machine)
        here = folder.with_name(f"{folder.name}-here")
        shutil.rmtree(here, ignore_errors=True)
        collect_counterparts(folder, here)
        gpu_peers.pack(folder / "peers")
    found = [*faults(folder, options.python, machine), *failing_imports(folder, options.machine)]
    carried, checkout = size(folder), size_of_checkout()
    if carried + checkout > MOST:
        found.append(f"{_mib(carried)} and a checkout of {_mib(checkout)} are more than {_mib(MOST)}")
    for wheel in sorted(folder.glob("*.whl"), key=lambda path: -path.stat().st_size):
        print(f"{_mib(wheel.stat().st_size)}  {wheel.name}")
    print(f"{_mib(carried)} in {folder}, {_mib(checkout)} in the checkout, of {_mib(MOST)}")
    print("\n".join(found) or f"Nothing is missing: every wheel is for Python {options.python}, every requirement met, "
          "every import of a serving process found.")  # fmt: skip
    return 1 if found else 0


def _mib(count: int) -> str:
    return f"{count / (1 << 20):.1f} MiB"


if __name__ == "__main__":
    sys.exit(main())
