"""A vendor's copy is clean under ruff's defaults, and under its own settings whatever its name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sglang_platform.core.cli.app import app

NAMES = (
    "acme-npu",
    "z",
    "zeta",
    "a-very-long-name-of-an-accelerator-x",
    "sglang-npu",
    "x9-1",
    "torchx",
    "my_device",
)


def ruff(name: str, folder: Path, *options: str) -> str:
    made = CliRunner().invoke(app, ["new", name, "--device-type", "acme", "--dir", str(folder)])
    assert made.exit_code == 0, made.output
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format", "concise", *options]
    return subprocess.run([*command, "."], cwd=folder, capture_output=True, text=True).stdout


@pytest.mark.parametrize("name", NAMES)
def test_ruff_finds_nothing_in_a_copy(name: str, tmp_path: Path) -> None:
    assert ruff(name, tmp_path / "copy") == "All checks passed!\n"


def test_ruff_finds_nothing_by_its_defaults(tmp_path: Path) -> None:
    assert ruff("acme-npu", tmp_path / "copy", "--isolated") == "All checks passed!\n"
