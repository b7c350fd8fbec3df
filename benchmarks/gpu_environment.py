"""The environment of a process on a machine on which nothing of ours is installed.

    eval "$(python benchmarks/gpu_environment.py SCRATCH --carry FOLDER)"

prints it for a shell, after unpacking the folder's wheels into SCRATCH.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import gpu_metadata
from packaging.tags import sys_tags
from packaging.utils import canonicalize_name, parse_wheel_filename

__all__ = ["build"]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


def build(
    scratch: Path, *, carry: Path | None = None, peers: Path | None = None, hide_all_but: Path | None = None
) -> dict[str, str]:
    """Our packages from the checkout, then peers, then the wheels of `carry`, ahead of what is installed.

    hide_all_but: a list of distributions; others that are neither ours nor carried are not found. In the place of
    wheels of another Python go those of `FOLDER-here`, which `gpu_carry.py` writes beside the folder.
    """
    sources = [*sorted(ROOT.glob("packages/*/src")), ROOT / "conformance" / "src", ROOT, HERE]
    scratch = scratch.resolve()
    unpacked, carried = scratch / "carried", set()
    supported = frozenset(sys_tags())
    folders = [] if carry is None else [carry, carry.with_name(f"{carry.name}-here")]
    for wheel in sorted(wheel for folder in folders for wheel in folder.glob("*.whl")):
        name, _, _, tags = parse_wheel_filename(wheel.name)
        carried.add(str(name))
        # SGLang's wheel names a Python for the sake of the gRPC server, which is left out.
        if tags & supported or name == "sglang":
            shutil.unpack_archive(wheel, unpacked, "zip")
    projects = [*ROOT.glob("packages/*/pyproject.toml"), ROOT / "conformance/pyproject.toml"]
    gpu_metadata.write(projects, scratch / "metadata")
    path = [*sources, *([peers.resolve()] if peers else []), scratch / "metadata", unpacked]
    environment = dict(os.environ)
    if hide_all_but is not None:
        hidden = scratch / "hidden.txt"
        hidden.write_text("\n".join(_others(carried, hide_all_but)))
        environment["GPU_REHEARSAL_HIDDEN"] = str(hidden)
        path.insert(0, HERE / "gpu_rehearsal")
    words = [*map(str, path), os.environ.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, words)))
    environment.setdefault("TRITON_CACHE_DIR", str(scratch / "triton"))
    return environment


def _others(carried: set[str], machine: Path) -> list[str]:
    """The top-level modules here of distributions that the machine lacks and nothing brings."""
    lines = machine.read_text(encoding="utf-8").splitlines()
    there = carried | {canonicalize_name(line.partition("==")[0].strip()) for line in lines}

    def is_there(name: str) -> bool:
        return name in there or name.startswith("sglang-platform")

    found = packages_distributions().items()
    return sorted(top for top, owners in found if not any(is_there(canonicalize_name(one)) for one in owners))


def main() -> int:
    """Print the variables that differ from this process's."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scratch", type=Path)
    parser.add_argument("--carry", type=Path)
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--hide-all-but", type=Path)
    options = parser.parse_args()
    options.scratch.mkdir(parents=True, exist_ok=True)
    found = build(
        options.scratch, carry=options.carry, peers=options.peers, hide_all_but=options.hide_all_but
    )
    for name, value in found.items():
        if os.environ.get(name) != value:
            print(f"export {name}={shlex.quote(value)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
