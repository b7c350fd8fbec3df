"""The command on platforms of this folder, as a person calls it: in a process of its own, with a plain environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
GOOD, BAD = "odd=odd_platforms:Talks", "odd=odd_platforms:Raises"
FACTORIES, NAMED = "contract.factories_answer_with_classes", "contract.device_is_named"


def variables() -> dict[str, str]:
    """This environment, without what chooses a platform, and with this folder's modules to be found."""
    path = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SGLANG_PLATFORM")}
    return {**kept, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}


def python(*arguments: str, folder: Path, seconds: float = 240) -> subprocess.CompletedProcess[str]:
    """Python with these arguments, in `folder`."""
    return subprocess.run(
        [sys.executable, *arguments],
        env=variables(),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )


def conformance(*arguments: str, folder: Path, seconds: float = 240) -> subprocess.CompletedProcess[str]:
    """`sglang-platform conformance` with these arguments, in `folder`."""
    return python("-m", "sglang_platform.conformance", *arguments, folder=folder, seconds=seconds)
