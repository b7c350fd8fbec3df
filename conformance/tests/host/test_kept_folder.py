"""Folders that several processes want made at once."""

from __future__ import annotations

import shutil
import time
from multiprocessing import get_context
from pathlib import Path

import pytest

from sglang_platform.conformance.host.kept_folder import kept_folder


def _write(folder: Path) -> None:
    with (folder / "made").open("a") as file:
        file.write("half ")
        file.flush()
        time.sleep(0.2)
        file.write("whole")


def _read(folder: Path) -> str:
    return (kept_folder(folder, 1, _write) / "made").read_text()


def test_processes_that_ask_at_once_get_the_whole_of_one(tmp_path: Path) -> None:
    with get_context("fork").Pool(4) as pool:
        assert pool.map(_read, [tmp_path / "models" / "llama"] * 8) == ["half whole"] * 8


def test_it_is_made_again_where_something_else_is_wanted(tmp_path: Path) -> None:
    folder = kept_folder(tmp_path / "llama", {"seed": 0}, _write)
    (folder / "answers-of-this-one").write_text("")
    assert kept_folder(folder, {"seed": 0}, pytest.fail) == folder
    kept_folder(folder, {"seed": 1}, _write)
    assert sorted(one.name for one in folder.iterdir()) == ["complete.json", "made"]


def test_one_that_was_interrupted_is_made_again(tmp_path: Path) -> None:
    def interrupted(folder: Path) -> None:
        (folder / "made").write_text("half ")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kept_folder(tmp_path / "llama", 1, interrupted)
    assert not (tmp_path / "llama").exists()
    assert _read(tmp_path / "llama") == "half whole"


def test_a_folder_of_somebody_else_is_moved_aside_and_stays(tmp_path: Path) -> None:
    for weights in ("of years", "of months"):
        (tmp_path / "llama").mkdir()
        (tmp_path / "llama" / "weights").write_text(weights)
        assert _read(tmp_path / "llama") == "half whole"
        shutil.rmtree(tmp_path / "llama")
    kept = [(tmp_path / f"llama.before-{number}" / "weights").read_text() for number in (1, 2)]
    assert kept == ["of years", "of months"]
