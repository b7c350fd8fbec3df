"""Stale locks of killed extension builds go; the lock of a live process stays, however old."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sglang_platform.core.sglang.repairs import build_locks


def _lock(folder: Path, name: str = "lock", *, minutes_old: float) -> Path:
    path = folder / "py311_cpu" / folder.name / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    then = time.time() - minutes_old * 60
    os.utime(path, (then, then))
    return path


def test_old_locks_of_both_kinds_go_and_nothing_else(tmp_path: Path) -> None:
    stale = _lock(tmp_path / "a", minutes_old=31), _lock(tmp_path / "b", ".ninja_lock", minutes_old=500)
    young = _lock(tmp_path / "c", minutes_old=29)
    other = _lock(tmp_path / "d", "build.ninja", minutes_old=500)
    assert sorted(build_locks.sweep([tmp_path])) == sorted(stale)
    assert young.exists()
    assert other.exists()


def test_the_lock_of_a_live_process_is_left_alone_and_goes_when_it_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "ext" / "lock"
    path.parent.mkdir()
    program = Path(__file__).parent / "programs" / "hold_a_build_lock.py"
    owner = subprocess.Popen([sys.executable, str(program), str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "held\n"
        then = time.time() - 3600
        os.utime(path, (then, then))
        assert build_locks.sweep([tmp_path]) == []
        assert path.exists()
    finally:
        owner.kill()
        owner.wait()
    assert build_locks.sweep([tmp_path]) == [path]


def test_the_age_and_the_folder_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    path = _lock(tmp_path / "a", minutes_old=10)
    assert build_locks.sweep() == []
    monkeypatch.setenv(build_locks.AGE_VARIABLE, "nonsense")
    assert build_locks.sweep() == []
    monkeypatch.setenv(build_locks.AGE_VARIABLE, "5")
    assert build_locks.sweep() == [path]
