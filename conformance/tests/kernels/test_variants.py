"""Serving compiles nothing: one machine code per attention kernel and model, and one more of decode for short contexts.

The merge has one for each of the two, the plan of parts one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "programs" / "variants_of_attention.py"


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("package", "target", "page"), [("cuda", "sm_90", 1), ("cuda", "sm_90", 64), ("rocm", "gfx942", 1)]
)
def test_no_step_needs_a_code_of_its_own(package: str, target: str, page: int, tmp_path: Path) -> None:
    """In a process of its own: a process that compiles must not have met the interpreter."""
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path)}
    environment.pop("TRITON_INTERPRET", None)
    done = subprocess.run(
        [sys.executable, str(PROGRAM), package, target, str(page)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    expected = ["decode_kernel=2", "extend_kernel=1", "merge_kernel=2", "plan_kernel=1"]
    assert done.stdout.split() == expected, done.stderr[-3000:]
