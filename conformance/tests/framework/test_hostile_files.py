"""Files given to the suite that are none, and places that take no report: a line and status 2, before any check."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sglang_platform.conformance.cli.table import features, table
from sglang_platform.conformance.description import nobody
from sglang_platform.conformance.expected import read_vendor_file
from sglang_platform.conformance.fixtures.model_config import shapes_of
from sglang_platform.conformance.outcome import Outcome
from sglang_platform.conformance.report.document import make_document
from sglang_platform.conformance.report.progress_log import ProgressLog
from sglang_platform.conformance.runner import Selection
from sglang_platform.core.errors import ConfigurationError

FILES = ["pipe", "/dev/zero", "directory", "loop", "deep", "not UTF-8", "huge"]


def hostile(kind: str, path: Path) -> Path:
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "deep":
        path.write_text("a = " * path.name.endswith(".toml") + "[" * 100_000)
    elif kind == "not UTF-8":
        path.write_bytes(b"\xff\xfe{}")
    elif kind == "huge":
        with path.open("wb") as file:
            file.truncate(100 << 20)
    else:
        path.symlink_to(kind)
    return path


@pytest.mark.parametrize("kind", FILES)
def test_files_that_the_suite_reads(kind: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"config\.json cannot be read"):
        shapes_of(hostile(kind, tmp_path / "config.json"))
    with pytest.raises(ConfigurationError, match=r"vendor\.toml cannot be read"):
        read_vendor_file(hostile(kind, tmp_path / "vendor.toml"), [])
    hostile(kind, tmp_path / "unfinished.jsonl")
    with pytest.raises(ConfigurationError, match="there is no run to go on with"):
        ProgressLog(tmp_path, {}).resume()


@pytest.mark.parametrize(
    "text",
    ["7", "[]", "{}", '{"key": 7, "command": "", "started": 0}', '{"key": {}, "command": "", "started": "x"}',
     '{"key": {}, "command": "", "started": 0}\n{"outcome": {}}',
     '{"key": {}, "command": "", "started": 0}\n{"outcome": {"id": "x"}}', ""],
)  # fmt: skip
def test_a_log_of_a_run_that_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "unfinished.jsonl").write_text(text)
    with pytest.raises(ConfigurationError, match="there is no run to go on with"):
        ProgressLog(tmp_path, {}).resume()


@pytest.mark.parametrize(
    "numbers",
    [
        {"num_attention_heads": 1e999, "hidden_size": 8},
        {"num_attention_heads": float("nan"), "hidden_size": 8},
        {"num_attention_heads": 8, "hidden_size": 64, "head_dim": -1},
        {"num_attention_heads": [], "hidden_size": {}},
    ],
)
def test_a_model_whose_numbers_are_none(numbers: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(numbers))
    with pytest.raises(ConfigurationError, match="is no configuration of a model"):
        shapes_of(path)


def report_on(folder: Path, **packages: str) -> Path:
    outcome = Outcome(
        "packaging.asking_leaves_the_process_alone",
        "packaging",
        "it holds",
        "failed",
        what="a\x1b[31m\ud800",
        fix="b",
    )
    document = make_document(
        Selection("my_device"),
        nobody("my_device", None, None),
        [outcome],
        ["core"],
        started=1.8e9,
        command="",
    )
    document["environment"]["packages"] |= packages
    (folder / "report.json").write_text(json.dumps(document))
    return folder / "report.json"


def test_texts_of_reports_do_not_steer_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table([report_on(tmp_path, torch="\x1b]0;t\x07")])
    table([tmp_path], output=tmp_path / "page.md")
    for text in (capsys.readouterr().out, (tmp_path / "page.md").read_text()):
        assert "a\\x1b[31m\\ud800" in text
        assert "\x1b" not in text


def test_a_release_that_is_no_version_has_no_column(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Exception) as ended:
        features([report_on(tmp_path, sglang="latest")])
    assert ended.value.exit_code == 2  # type: ignore[attr-defined]
    assert "'latest', its SGLang, is no version" in capsys.readouterr().err


@pytest.mark.sample(2)
@pytest.mark.parametrize("option", ["--report", "--junit"])
def test_a_place_that_takes_no_report_is_told_before_any_check(option: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    place = str(tmp_path / "file" / "below")
    done = subprocess.run(
        [sys.executable, "-m", "sglang_platform.conformance", "--platform", "example_oot", option, place],
        env={**os.environ, "COLUMNS": "1000"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert f"{place}{'/report.json' * (option == '--report')} cannot be written" in done.stderr
    assert "Traceback" not in done.stderr
    assert "level 1" not in done.stderr
