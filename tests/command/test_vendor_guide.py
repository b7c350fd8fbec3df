"""The vendor guide without its commands: each edit fits the copy that the edits before it left, and what they leave is
clean, whole and importable. `nox -s vendor_copy` walks the page with its commands."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from page_commands import REPOSITORY
from steps_of_page import PageCommandLine, PageEdit, PageFile, steps_of
from typer.testing import CliRunner

from sglang_platform.core.cli.app import app

GUIDE = REPOSITORY / "docs" / "vendor_guide.md"
TORCH_ACME = """
from sglang_platform.example_oot import device_type

device_type.NAME = "acme_npu"
from sglang_platform.example_oot.device import open_device

open_device()
"""


def step_through(folder: Path) -> int:
    """Make each edit and each deletion of the page; returns how many."""
    made = 0
    for step in steps_of(GUIDE):
        words = shlex.split(step.text, comments=True) if isinstance(step, PageCommandLine) else []
        if isinstance(step, PageEdit | PageFile):
            step.apply(folder)
        elif words[:1] == ["rm"]:
            for name in words[1:]:
                if not name.startswith("-"):
                    shutil.rmtree(folder / name) if (folder / name).is_dir() else (folder / name).unlink()
        else:
            continue
        made += 1
    return made


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The copy at the end of the page, without a driver."""
    folder = tmp_path_factory.mktemp("guide") / "acme-npu"
    made = CliRunner().invoke(app, ["new", "acme-npu", "--dir", str(folder)])
    assert made.exit_code == 0, made.output
    assert step_through(folder) == 10
    (folder / "plugin").mkdir()
    (folder / "plugin" / "torch_acme.py").write_text(TORCH_ACME)
    return folder


def run(folder: Path, *words: str) -> str:
    path = os.pathsep.join([str(folder / "src"), str(folder / "plugin"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "SGLANG_PLATFORM": "acme_npu", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_ruff_finds_nothing_in_the_changed_copy(copy: Path) -> None:
    assert run(copy, "-m", "ruff", "check", "--no-cache", ".") == "All checks passed!\n"


def test_the_tests_of_the_changed_copy_are_collected(copy: Path) -> None:
    assert "error" not in run(copy, "-m", "pytest", "--collect-only", "-q", "tests")


_SERVES = """
import torch
from sglang_platform_acme_npu import kernels
from sglang_platform_acme_npu.platform import AcmeNpuPlatform

platform = AcmeNpuPlatform()
assert platform.device_type == "acme_npu"
assert platform.get_graph_runner_cls() is None
x = torch.randn(3, 8).to(platform.get_device())
out = torch.empty_like(x)
kernels.rms_norm(x, torch.ones(8).to(x.device), 0.0, out)
torch.testing.assert_close(out.cpu().square().mean(-1), torch.ones(3))

@torch.library.impl("sglang_acme_npu::rms_norm", "PrivateUse1")
def rms_norm(x, weight, eps, out):
    out.fill_(7)

kernels.rms_norm(x, torch.ones(8).to(x.device), 0.0, out)
assert out.cpu().unique().tolist() == [7.0]
"""


def test_plain_torch_serves_an_operator_until_a_kernel_is_registered(copy: Path) -> None:
    run(copy, "-c", _SERVES)


def test_every_command_of_the_guide_that_takes_a_minute_says_so() -> None:
    slow = [
        step
        for step in steps_of(GUIDE)
        if isinstance(step, PageCommandLine)
        and ("host.generate" in step.text or step.text.startswith("pytest") or "--level memory" in step.text)
    ]
    assert [step.text for step in slow if not step.minutes] == []


Edit = Callable[[str], PageEdit]


@pytest.fixture
def edit(tmp_path: Path) -> Edit:
    def of(block: str) -> PageEdit:
        page = tmp_path / "page.md"
        page.write_text(f"```diff\n{block}\n```\n")
        (found,) = steps_of(page)
        assert isinstance(found, PageEdit)
        return found

    return of


def test_an_edit_keeps_what_has_no_sign_and_must_fit_once(tmp_path: Path, edit: Edit) -> None:
    (tmp_path / "file").write_text("a\nb\na\nc\n")
    edit("--- file\n a\n-c\n+d").apply(tmp_path)
    assert (tmp_path / "file").read_text() == "a\nb\na\nd\n"
    with pytest.raises(ValueError, match="has 2 times"):
        edit("--- file\n-a").apply(tmp_path)
    with pytest.raises(ValueError, match="has 0 times"):
        edit("--- file\n-c").apply(tmp_path)
    with pytest.raises(ValueError, match="begins with"):
        edit("-a\n+b")


def test_a_walk_stops_at_a_command_that_does_not_do_what_the_page_says(tmp_path: Path) -> None:
    cases = {
        "```console\n$ echo one\none\n```": "",
        "```sh\nfalse\n```": "status 1: false",
        "```console\n$ echo one\ntwo\n```": "'two' is not in the output of echo one",
        "```diff\n--- none\n-a\n```": "No such file",
    }
    for text, said in cases.items():
        page = tmp_path / "page.md"
        page.write_text(text + "\n")
        program = Path(__file__).parent / "walk_page.py"
        done = subprocess.run(
            [sys.executable, str(program), str(page), str(tmp_path)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, said in done.stderr) == (1 if said else 0, True), done.stderr
