import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "programs" / "read_torch_build.py"


def ask(tmp_path, **environment):
    done = subprocess.run(
        [sys.executable, str(PROGRAM)],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, **environment},
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("version", "cuda", "hip"),
    [("2.13.0+cu130", "13.0", None), ("2.13.0+rocm7.1", None, "7.1.25424"), ("2.13.0+cpu", None, None)],
)
def test_the_build_is_read_without_importing_torch(tmp_path, version, cuda, hip):
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('torch was imported')")
    (package / "version.py").write_text(f"__version__ = {version!r}\ncuda = {cuda!r}\nhip = {hip!r}\n")
    assert ask(tmp_path, PYTHONPATH=str(tmp_path)) == [[version, cuda, hip], False]


def test_a_build_that_knows_no_hip_has_none(tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").touch()
    (tmp_path / "torch" / "version.py").write_text("__version__ = '1.4.0'\ncuda = '10.1'\n")
    assert ask(tmp_path, PYTHONPATH=str(tmp_path)) == [["1.4.0", "10.1", None], False]


def test_the_installed_torch_agrees_with_what_it_says_itself():
    import torch

    from sglang_platform.core.portable.torch.build import torch_build

    assert torch_build() == (torch.__version__, torch.version.cuda, torch.version.hip)


def test_no_torch_is_told_from_a_cpu_build():
    done = subprocess.run(
        [sys.executable, "-S", str(PROGRAM), "--without-site-packages"],
        capture_output=True,
        text=True,
        env=source_only(),
    )
    assert json.loads(done.stdout) == [None, False], done.stderr


def source_only():
    import sglang_platform.core

    return {**os.environ, "PYTHONPATH": str(Path(sglang_platform.core.__file__).parents[2])}
