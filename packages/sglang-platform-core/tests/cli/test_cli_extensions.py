"""Subcommands of other distributions: found by entry point, and harmless where they are broken."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_EXTENSION = """
import typer

app = typer.Typer()

@app.callback(invoke_without_command=True)
def run() -> None:
    typer.echo("the extension speaks")
"""


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    info = folder / "my_extension-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-extension\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[sglang_platform.cli]\nspeak = my_extension:app\nfail = my_extension:missing\nlist = my_extension:app\n"
    )
    (folder / "my_extension.py").write_text(_EXTENSION)
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, "-c", "from sglang_platform.core.cli import main; main()", *arguments],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_installed_subcommand_is_there(tmp_path: Path) -> None:
    run = _run(tmp_path, "speak")
    assert run.returncode == 0, run.stderr
    assert run.stdout == "the extension speaks\n"


def test_one_that_cannot_be_loaded_says_why_and_the_others_work(tmp_path: Path) -> None:
    run = _run(tmp_path, "fail", "--with", "options")
    assert run.returncode == 2
    for part in ("'fail' cannot be loaded", "my-extension 1.0", "missing", "fix:"):
        assert part in run.stderr, run.stderr
    assert "Traceback" not in run.stderr
    assert _run(tmp_path, "speak").returncode == 0


def test_a_subcommand_of_our_own_cannot_be_taken(tmp_path: Path) -> None:
    assert "the extension speaks" not in _run(tmp_path, "list").stdout
