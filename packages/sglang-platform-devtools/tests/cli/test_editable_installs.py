"""A plugin that is installed in editable form is read as it is in any other: a copy of the example, by pip."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest

NAME, MODULE = "sglang-platform-acme-npu", "sglang_platform_acme_npu"
_COMMAND = "from sglang_platform.core.cli import main; main()"
_SETUPTOOLS = '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n\n'
_MAPPED = f'\n[tool.setuptools]\npackages = ["{MODULE}"]\npackage-dir = {{"{MODULE}" = "code"}}\n'
_FOUND = '\n[tool.setuptools.packages.find]\nwhere = ["src"]\n'

FORMS = {
    "hatchling, a path": (),
    "setuptools, a finder": ("_MAPPED",),
    "setuptools, links": ("_FOUND", "--config-settings", "editable_mode=strict"),
}


def run(python: Path, *words: str, cwd: Path) -> str:
    done = subprocess.run([python, *words], cwd=cwd, text=True, capture_output=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pip(python: Path, *words: str, cwd: Path) -> None:
    run(python, "-m", "pip", "-q", "--disable-pip-version-check", *words, cwd=cwd)


def as_setuptools(pyproject: Path, more: str) -> None:
    text = re.sub(r"\[build-system\].*?\n\n", _SETUPTOOLS, pyproject.read_text(), flags=re.DOTALL)
    pyproject.write_text(re.sub(r"^license.*\n", "", text, flags=re.MULTILINE) + more)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    run(Path(sys.executable), "-c", _COMMAND, "new", "acme-npu", "--dir", "acme", cwd=folder)
    return folder / "acme"


_READERS = """
import json, sys
from pathlib import Path
from sglang_platform.devtools.upgrade.plugin import open_source
from sglang_platform.devtools.source.opening import open_module, package_files
name, module = sys.argv[1:]
source = open_source(name)
print(json.dumps({
    "check": sorted(source.tree.served()),
    "its entry points": source.metadata["entry_points.txt"].split(),
    "hooks check": sorted(open_module(module).served()),
    "doctor": sorted(name for name, path in package_files(module) if path.is_file()),
}))
"""


def told(python: Path, folder: Path) -> dict[str, Any]:
    """The modules that each reader finds, from a folder where the sources are not."""
    found: dict[str, Any] = json.loads(run(python, "-c", _READERS, NAME, MODULE, cwd=folder))
    return found


@pytest.mark.long
@pytest.mark.host
def test_each_form_is_read_alike(project: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=True, symlinks=True)
    python = tmp_path / "env" / "bin" / "python"
    pip(
        python, "uninstall", "-y", "setuptools", cwd=tmp_path
    )  # an old one comes with the pip of some Pythons
    site = next((tmp_path / "env" / "lib").glob("python*/site-packages"))
    shared = sysconfig.get_path("purelib")
    (site / "shared.pth").write_text(f"import site; site.addsitedir({shared!r})\n")
    found = {}
    for form, (more, *options) in ((name, form or ("",)) for name, form in FORMS.items()):
        copy = tmp_path / re.sub(r"\W+", "_", form)
        shutil.copytree(project, copy)
        if more:
            as_setuptools(copy / "pyproject.toml", globals()[more])
        if more == "_MAPPED":
            (copy / "src" / MODULE).rename(copy / "code")
        pip(python, "install", "--no-build-isolation", "--no-deps", *options, "-e", str(copy), cwd=tmp_path)
        found[form] = told(python, tmp_path)
        pip(python, "uninstall", "-y", NAME, cwd=tmp_path)
    first, *others = FORMS
    modules = found[first]["check"]
    assert {MODULE, f"{MODULE}.platform", f"{MODULE}.kernels.library"} <= set(modules)
    assert found[first]["hooks check"] == found[first]["doctor"] == modules
    for form in others:
        for reader, said in found[first].items():
            assert found[form][reader] == said, (form, reader)
