from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sglang_platform.core import counters
from sglang_platform.core.counters import REPORT_DIR_VARIABLE

_COUNTING = """
import os, sys
from sglang_platform.core.counters import counter, snapshot
a = counter("part.calls")
a.add(); a.add(4); counter("other").set(9)
child = os.fork()
if child == 0:
    counter("part.calls").add(100)
    os._exit(0)
os.waitpid(child, 0)
print(os.getpid(), child)
os.kill(os.getpid(), 9) if "crash" in sys.argv else None
"""


@pytest.mark.parametrize("how", ["end", "crash"])
def test_another_process_reads_the_counts_even_after_a_crash(tmp_path: Path, how: str) -> None:
    run = subprocess.run(
        [sys.executable, "-u", "-c", _COUNTING, how],
        env={**os.environ, REPORT_DIR_VARIABLE: str(tmp_path / "made" / "here")},
        capture_output=True,
        text=True,
        check=False,
    )
    parent, child = map(int, run.stdout.split())
    assert counters.read_all(tmp_path / "made" / "here") == {
        parent: {"part.calls": 5, "other": 9},
        child: {"part.calls": 100, "other": 0},  # a fork counts into its own file, from zero
    }


def test_without_the_variable_nothing_is_written(tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k != REPORT_DIR_VARIABLE}
    subprocess.run(
        [sys.executable, "-c", _COUNTING], cwd=tmp_path, env=environment, check=True, capture_output=True
    )
    assert list(tmp_path.iterdir()) == []


def test_one_name_is_one_counter() -> None:
    assert counters.counter("same") is counters.counter("same")
    before = counters.counter("same").value
    counters.counter("same").add(3)
    assert counters.snapshot()["same"] == before + 3


def test_a_name_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="120 bytes"):
        counters.counter("x" * 121)


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "counters-1.bin").write_bytes(b"something else")
    with pytest.raises(ValueError, match="is not a counter table"):
        counters.read_all(tmp_path)


def test_importing_core_and_counting_import_neither_torch_nor_sglang() -> None:
    code = (
        "import sys, sglang_platform.core as core; core.counter('x').add()\n"
        "print([m for m in ('torch', 'sglang', 'numpy') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
