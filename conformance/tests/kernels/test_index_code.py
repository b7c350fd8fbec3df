"""What the machine code of the indexer must show: keys are read and widened once for the tokens of a request."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "programs" / "code_of_index.py"

# Warp instructions per key and new token: 64 heads of 128 columns, relu, weights and their sum.
MOST = {"sm_90": 9, "sm_100": 10, "gfx942": 10, "gfx950": 9}


@pytest.mark.sample(4)
@pytest.mark.parametrize("target", MOST)
def test_the_loop_over_new_tokens(target: str, tmp_path: Path) -> None:
    """In a process of its own: a process that compiles must not have met the interpreter."""
    environment = {**os.environ, "TRITON_CACHE_DIR": os.environ.get("TRITON_CACHE_DIR", str(tmp_path))}
    environment.pop("TRITON_INTERPRET", None)
    done = subprocess.run(
        [sys.executable, str(PROGRAM), target], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    row = json.loads(done.stdout.splitlines()[-1])
    loop = row["loop"]
    assert row["code"]["spills"] == 0, row
    assert loop["matrix"] > 0, row
    # Codes are bytes and are converted before the loop; in it are queries, in 16 bits.
    assert loop["conversions"] == 0, row
    assert loop["byte_loads"] == 0, row
    assert loop["instructions"] * row["warps"] / row["keys"] <= MOST[target], row
    if target in ("sm_90", "gfx942"):
        assert loop["ahead"] >= 1, row
