"""What the machine code of extend must show: a loop without masks over the whole blocks of the cached prefix."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "programs" / "code_of_extend.py"

# Instructions of a warp and turn over cached keys; with a mask 627 and 692 on sm_90, 498 and 737 on gfx942.
MOST = {("sm_90", "bf16"): 440, ("sm_90", "fp8"): 530, ("gfx942", "bf16"): 410, ("gfx942", "fp8"): 670}


@pytest.mark.sample(9)
@pytest.mark.parametrize("window", [-1, 1024])
@pytest.mark.parametrize(("target", "stored"), MOST)
def test_the_loop_over_whole_cached_blocks(target: str, stored: str, window: int, tmp_path: Path) -> None:
    """In a process of its own: a process that compiles must not have met the interpreter."""
    environment = {**os.environ, "TRITON_CACHE_DIR": os.environ.get("TRITON_CACHE_DIR", str(tmp_path))}
    environment.pop("TRITON_INTERPRET", None)
    done = subprocess.run(
        [sys.executable, str(PROGRAM), target, stored, str(window)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    row = json.loads(done.stdout.splitlines()[-1])
    assert row["spills"] == 0, row
    # Cached blocks before the window's end, whole ones, and the rest; then new ones, whole (without a window) and rest.
    assert len(row["loops"]) == 4, row
    whole, rest = row["loops"][:2] if window < 0 else row["loops"][1:3]
    assert whole <= MOST[target, stored], row
    assert whole < rest, row
