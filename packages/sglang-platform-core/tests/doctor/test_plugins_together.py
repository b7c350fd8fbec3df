"""`doctor` and `info` load all plugins together in a process of their own, and say what a launch says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_GENERAL, _PLATFORMS = "sglang.srt.plugins", "sglang.srt.platforms"
_MAIN = "from sglang_platform.core.cli import main; main()"
_LOAD = "from sglang_platform.core import load_plugins; load_plugins()"
_CLAIM = """
import sys
def register():
    if hasattr(sys, "acme"):
        raise RuntimeError("acme is registered already")
    sys.acme = __name__
"""
_REPLACE = """
from sglang_platform.core import HookRegistry, HookType
def register():
    HookRegistry.register("colorsys:rgb_to_hsv", lambda *a: a, HookType.REPLACE)
"""
_PLATFORM = """
import sys
from sglang_platform.core import SRTPlatform, platform_plugin
@platform_plugin
def register(): return __name__ + ":Chip"
class Chip(SRTPlatform):
    device_name = "chip"
    device_type = "cpu"
    def init_backend(self):
        {init}
"""


class _Site:
    """A folder with distributions, seen beside those of this environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def plugin(self, name: str, source: str, group: str = _GENERAL, entry: str = "") -> None:
        (self.folder / f"{name}_mod.py").write_text(source)
        info = self.folder / f"{name}_dist-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-dist\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{group}]\n{entry or name} = {name}_mod:register\n")

    def run(
        self, *command: str, program: str = _MAIN, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([str(self.folder), os.environ.get("PYTHONPATH", "")])
        return subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program, *command],
            env={**os.environ, "PYTHONPATH": path, "COLUMNS": "1000", **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def doctor(self, *arguments: str, **environment: str) -> list[dict[str, Any]]:
        """The findings that concern the plugins of this site."""
        done = self.run("doctor", "--json", *arguments, **environment)
        findings: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
        assert done.returncode == any(one["severity"] == "problem" for one in findings), done.stderr
        return [one for one in findings if one["id"] in _IDS]


_IDS = {"plugins-untried", "plugin-failed", "duplicate-name"}


@pytest.fixture
def site(tmp_path: Path) -> _Site:
    return _Site(tmp_path)


def test_a_plugin_that_fails_after_another_is_told_by_all_in_the_same_words(site: _Site) -> None:
    site.plugin("aone", _CLAIM)
    site.plugin("btwo", _CLAIM)
    (finding,) = site.doctor()
    assert (finding["id"], finding["severity"]) == ("plugin-failed", "problem")
    assert finding["what"] == "general plugin 'btwo' failed"
    assert finding["plugin"]["distribution"] == "btwo-dist"
    assert "acme is registered already" in finding["why"]
    assert "; loaded before it in this process: aone (aone-dist 1.0)" in finding["why"]
    info, launch = site.run("info"), site.run(program=_LOAD)
    assert info.returncode == 1
    for text in (finding["what"], finding["why"], finding["fix"]):
        assert text in launch.stderr
        assert text in info.stdout + info.stderr


def test_a_device_that_cannot_be_opened_is_a_note(site: _Site) -> None:
    site.plugin("aone", "def register(): ...")
    site.plugin("chip", _PLATFORM.format(init="raise OSError('in use')"), _PLATFORMS)
    (finding,) = site.doctor()
    assert (finding["id"], finding["severity"]) == ("plugins-untried", "note")
    assert "OSError: in use" in finding["why"]


def test_a_plugin_that_fails_alone_is_told_as_at_the_launch(site: _Site) -> None:
    site.plugin("aone", "def register(): raise OSError('driver busy')")
    site.plugin("btwo", "def register(): ...")
    (finding,) = site.doctor()
    assert (finding["id"], finding["severity"]) == ("plugin-failed", "problem")
    assert finding["what"] == "general plugin 'aone' failed"
    assert finding["why"] in site.run(program=_LOAD).stderr
    assert site.run("info").returncode == 1


def test_a_plugin_that_ends_the_process_is_named(site: _Site) -> None:
    site.plugin("aone", "def register(): ...")
    site.plugin("btwo", "import os\ndef register(): os._exit(7)")
    (finding,) = site.doctor()
    assert (finding["id"], finding["severity"]) == ("plugin-failed", "problem")
    assert finding["plugin"]["distribution"] == "btwo-dist"
    assert "status 7" in finding["why"]


def test_plugins_that_go_together_are_not_told(site: _Site) -> None:
    site.plugin("aone", _CLAIM)
    site.plugin("btwo", _REPLACE)
    assert site.doctor() == []


def test_sources_alone_say_that_plugins_were_not_run(site: _Site) -> None:
    site.plugin("aone", "import os\ndef register(): os._exit(7)")
    (finding,) = site.doctor("--source-only")
    assert (finding["id"], finding["severity"]) == ("plugins-untried", "note")


def test_two_distributions_of_one_entry_point_name(site: _Site) -> None:
    site.plugin("aone", "def register(): ...", entry="same")
    site.plugin("btwo", "def register(): ...", entry="same")
    findings = [one for one in site.doctor() if one["id"] == "duplicate-name"]
    assert len(findings) == 1
    assert findings[0]["fix"] == "keep one: pip uninstall aone-dist or pip uninstall btwo-dist"
