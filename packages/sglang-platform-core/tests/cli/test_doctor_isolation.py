"""Plugins that are importable from one place only, in a real virtual environment."""

from __future__ import annotations

import json
import os
import subprocess
import venv
from pathlib import Path

import pytest

import sglang_platform.core

GENERAL = "sglang.srt.plugins"


class Environment:
    """A virtual environment that holds core and what a test installs."""

    def __init__(self, folder: Path, libraries: Path) -> None:
        venv.create(folder, symlinks=True)
        self.python = folder / "bin" / "python"
        (self.site,) = folder.glob("lib/python*/site-packages")
        source = Path(sglang_platform.core.__path__[0]).parents[1]
        (self.site / "paths.pth").write_text(f"{source}\n{libraries}\n")
        self.install(
            "sglang-platform-core",
            "sglang_platform_core",
            "sglang_platform.core.sglang.start.general_plugin:load",
        )

    def install(self, distribution: str, name: str, value: str, where: Path | None = None) -> None:
        info = (where or self.site) / f"{distribution.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{GENERAL}]\n{name} = {value}\n")

    def findings(self, cwd: Path, **environment: str) -> list[dict]:
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("SGLANG_") and name != "PYTHONPATH"
        }
        code = "from sglang_platform.core.cli import main; main()"
        run = subprocess.run(
            [str(self.python), "-c", code, "doctor", "--source-only", "--json"],
            cwd=cwd,
            env={**clean, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert run.stdout, run.stderr
        findings = json.loads(run.stdout)["findings"]
        told = ("platform-decided", "plugins-untried", "sources-unread")  # of core alone
        return [finding for finding in findings if finding["id"] not in told]


@pytest.fixture
def environment(tmp_path: Path, libraries: Path) -> Environment:
    return Environment(tmp_path / "env", libraries)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "mine_hooks.py").write_text("raise SystemExit('imported')\ndef register(): ...\n")
    return folder


def test_importable_from_the_working_directory_only(environment, source, tmp_path) -> None:
    environment.install("mine-dist", "mine", "mine_hooks:register")
    (finding,) = environment.findings(source)
    assert (finding["id"], finding["severity"]) == ("importable-from-here-only", "warning")
    assert "from this folder only" in finding["what"]
    assert finding["plugin"]["distribution"] == "mine-dist"
    assert "pip install" in finding["fix"]
    (elsewhere,) = environment.findings(tmp_path)
    assert (elsewhere["id"], elsewhere["severity"]) == ("entry-point-nowhere", "problem")


def test_importable_through_pythonpath_only(environment, source, tmp_path) -> None:
    environment.install("mine-dist", "mine", "mine_hooks:register")
    (finding,) = environment.findings(tmp_path, PYTHONPATH=str(source))
    assert finding["id"] == "importable-from-here-only"
    assert "with this PYTHONPATH only" in finding["what"]
    assert str(source / "mine_hooks.py") in finding["why"]


def test_a_distribution_that_comes_and_goes_with_pythonpath_as_a_whole_is_fine(
    environment, source, tmp_path
) -> None:
    """Folders made by `pip install --target`: where the module is missing, so is the entry point."""
    environment.install("mine-dist", "mine", "mine_hooks:register", where=source)
    assert environment.findings(tmp_path, PYTHONPATH=str(source)) == []


@pytest.mark.parametrize("editable", [False, True])
def test_an_installed_plugin_is_fine_wherever_it_is_examined(environment, source, editable) -> None:
    environment.install("mine-dist", "mine", "mine_hooks:register")
    if editable:
        (environment.site / "mine.pth").write_text(f"{source}\n")
    else:
        (environment.site / "mine_hooks.py").write_text("def register(): ...\n")
    assert environment.findings(source) == []


def test_an_editable_install_with_a_finder_of_its_own_inside_a_namespace(environment, tmp_path) -> None:
    """As setuptools makes them: the finder maps `space.mine`, and no folder of that name is on the path."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "__init__.py").write_text("def register(): ...\n")
    (environment.site / "space").mkdir()
    (environment.site / "mine_finder.py").write_text(
        "import sys\nfrom importlib.util import spec_from_file_location\n"
        "class Finder:\n"
        "    @classmethod\n"
        "    def find_spec(cls, name, path=None, target=None):\n"
        "        if name == 'space.mine':\n"
        f"            return spec_from_file_location(name, {str(tmp_path / 'elsewhere' / '__init__.py')!r})\n"
        "sys.meta_path.append(Finder)\n"
    )
    (environment.site / "mine.pth").write_text("import mine_finder\n")
    environment.install("mine-dist", "mine", "space.mine:register")
    assert environment.findings(tmp_path) == []
