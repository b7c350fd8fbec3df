"""A vendor's first hour: an empty folder, a plugin of 30 lines with five defects, and what the suite prints.

The plugin is built and installed by pip. Each round runs the suite and makes the change that the printed fix asks for,
and no other; the words of the fix that the change follows are written beside it. In the end the suite is green.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(600)

PROJECT = Path(__file__).parent / "my_device"
"""What the vendor writes: a plugin with five defects, and the file that installs it."""

FIXES: dict[str, tuple[list[str], str, str, str]] = {
    # check: words of the fix, file, what is replaced, by what
    "packaging.contract_version_is_stated": (
        ["pyproject.toml", '[project.entry-points."sglang_platform.contract"]', '"v1"'],
        "pyproject.toml",
        'my_device = "my_device:activate"\n',
        'my_device = "my_device:activate"\n\n[project.entry-points."sglang_platform.contract"]\nmy_device = "v1"\n',
    ),
    "packaging.dependencies_are_declared": (
        ["add it to dependencies in pyproject.toml"],
        "pyproject.toml",
        '["sglang-platform-core"]',
        '["sglang-platform-core", "torch"]',
    ),
    "contract.identity_agrees_with_enum": (
        ["_enum = PlatformEnum.OOT", "device mixin"],
        "my_device.py",
        '    device_name = "my_device"\n',
        '    device_name = "my_device"\n    _enum = PlatformEnum.OOT\n',
    ),
    "contract.memory_is_in_bytes": (["return bytes"], "my_device.py", " >> 20", ""),
    "contract.graph_capture_has_a_runner": (
        ["graph_capture=False"],
        "my_device.py",
        "graph_capture=True",
        "graph_capture=False",
    ),
}

FOLLOWS = {
    "contract.memory_is_in_bytes": {
        "contract.device_operations_do_what_they_promise",
        "contract.memory_usage_covers_allocations",
    }
}
"""Failures that go with the repair of another: less total memory than is free, or than is used."""


def _install(project: Path, site: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--upgrade"]
    subprocess.run([*command, "--target", str(site), str(project)], check=True, capture_output=True)


def _run_suite(site: Path, folder: Path) -> tuple[int, str, dict[str, object]]:
    """Packaging and contract, where a plugin that brings no parts can be wrong."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("SGLANG_PLATFORM")}
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    words = ["--platform", "my_device", "--level", "packaging", "--level", "contract", "--report"]
    run = subprocess.run(
        [sys.executable, "-m", "sglang_platform.conformance", *words, str(folder)],
        env={**variables, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": "200"},
        cwd=folder.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return run.returncode, run.stdout, json.loads((folder / "report.json").read_text())


@pytest.mark.long
def test_the_printed_fixes_alone_turn_a_plugin_with_five_defects_green(tmp_path: Path) -> None:
    project, site = tmp_path / "my-device", tmp_path / "site"
    shutil.copytree(PROJECT, project)
    assert len((project / "my_device.py").read_text().splitlines()) <= 35
    met: set[str] = set()
    for _ in range(len(FIXES) + 1):
        _install(project, site)
        status, printed, report = _run_suite(site, tmp_path / "report")
        failed = [one for one in report["outcomes"] if one["status"] == "failed"]  # type: ignore[union-attr, index]
        ids = {one["id"] for one in failed}
        known = {*FIXES, *(one for first, then in FOLLOWS.items() if first in ids for one in then)}
        assert ids <= known, printed
        if not failed:
            break
        for one in failed:
            if one["id"] not in FIXES:
                continue
            words, file, old, new = FIXES[one["id"]]
            assert [word for word in words if word not in one["fix"]] == [], one["fix"]
            assert one["fix"].splitlines()[0] in printed
            text = (project / file).read_text()
            assert old in text
            (project / file).write_text(text.replace(old, new))
            met.add(one["id"])
    assert met == set(FIXES)
    assert status == 0, printed
    assert "not conformant" not in printed
