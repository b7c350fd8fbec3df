"""Runs plugins beside a release, and reads them."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path

from sglang_platform.devtools.flow.program import Program
from sglang_platform.devtools.source.tree import SourceTree
from sglang_platform.devtools.upgrade.wheels import open_release

__all__ = ["differences", "kinds", "read"]

RUN = Path(__file__).parent / "programs" / "run_plugins.py"


def raised(plugins: Path, host: Path) -> dict[str, str]:
    """The class of what each plugin of a folder raises; the empty text for nothing."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(RUN), str(host), str(plugins)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


release_at = functools.cache(lambda host: open_release(str(host)))


def read(plugin: Path, host: Path) -> Program:
    files = {str(plugin): plugin.stem}
    part = plugin.parent / plugin.name.replace("plugin_", "part_")
    if part.is_file():
        files[str(part)] = part.stem
    tree = SourceTree(plugin.stem, files, lambda path: Path(path).read_bytes())
    return Program(tree, release_at(host), [f"{plugin.stem}:register"])


def kinds(program: Program) -> set[str]:
    return {one.reach.kind for one in program.failures}


def differences(folder: Path, host: Path, named: dict[str, str]) -> list[str]:
    wrong = []
    for stem, error in raised(folder, host).items():
        told = kinds(read(folder / f"{stem}.py", host))
        if ("runs" in told) != bool(error) or "unsure" in told:
            wrong.append(
                f"{stem} {named[stem]}: raises {error or 'nothing'}, and the reader says {sorted(told)}"
            )
    return wrong
