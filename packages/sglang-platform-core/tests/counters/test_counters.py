from __future__ import annotations

from pathlib import Path

import pytest

from sglang_platform.core import counters
from sglang_platform.core.counters import REPORT_DIR_VARIABLE


@pytest.mark.parametrize("how", ["end", "crash"])
def test_another_process_reads_the_counts_even_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_program, how: str
) -> None:
    monkeypatch.setenv(REPORT_DIR_VARIABLE, str(tmp_path / "made" / "here"))
    run = run_program("count_and_fork.py", how, may_fail=True)
    parent, child = map(int, run.stdout.split())
    assert counters.read_all(tmp_path / "made" / "here") == {
        parent: {"part.calls": 5, "other": 9},
        child: {"part.calls": 100, "other": 0},  # a fork counts into its own file, from zero
    }


def test_without_the_variable_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_program
) -> None:
    monkeypatch.delenv(REPORT_DIR_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    run_program("count_and_fork.py")
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


def test_importing_core_and_counting_import_neither_torch_nor_sglang(run_program) -> None:
    assert run_program("count_once.py").stdout.strip() == "[]"
