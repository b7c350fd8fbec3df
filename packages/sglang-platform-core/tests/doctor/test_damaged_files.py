"""Installed files that are missing, cut short or changed, by the hashes in RECORD."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import importlib_metadata
import pytest
from installed_copy import install_copy

from sglang_platform.core.doctor.damaged_files import damage_of

CORE, EXAMPLE = "sglang-platform-core", "sglang-platform-example-oot"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Both distributions, installed, before those of this environment on the path."""
    folder = tmp_path / "site"
    for distribution in (CORE, EXAMPLE):
        install_copy(distribution, folder)
    monkeypatch.syspath_prepend(str(folder))
    return folder


def test_what_is_as_it_was_installed_is_no_damage(site: Path) -> None:
    assert damage_of(CORE) is None
    assert damage_of(EXAMPLE) is None
    assert damage_of("no-such-distribution") is None


@pytest.mark.parametrize(
    ("damage", "said", "unusable"),
    [
        (Path.unlink, "errors.py is missing", True),
        (lambda file: file.write_text(""), "errors.py has 0 bytes where ", False),
        (lambda file: file.write_text("def f(:"), "errors.py has 7 bytes where ", True),
        (lambda file: file.write_bytes(bytes(file.stat().st_size)), "errors.py was changed", True),
        (lambda file: file.write_text(file.read_text()[:-1] + "\t"), "errors.py was changed", False),
        (lambda file: (file.unlink(), file.mkdir()), "errors.py has ", True),
        (lambda file: (file.unlink(), file.symlink_to(file)), "errors.py cannot be read (", True),
    ],
    ids=["missing", "empty", "no Python", "zeros", "changed", "folder", "link to itself"],
)
def test_each_damage_is_named(
    site: Path, damage: Callable[[Path], object], said: str, unusable: bool
) -> None:
    damage(site / "sglang_platform/core/errors.py")
    found = damage_of(CORE)
    assert found is not None
    assert said in found.why
    assert found.unusable == unusable
    version = importlib_metadata.version(CORE)
    assert found.fix == f"install it again: pip install --force-reinstall --no-deps {CORE}=={version}"


def test_a_record_that_is_damaged_itself_costs_nothing_more(site: Path) -> None:
    (record,) = site.glob("sglang_platform_core-*/RECORD")
    record.write_bytes(b'\xff"\n,,,\n"x,y\n' + record.read_bytes()[:2000])
    assert damage_of(CORE) is None


def _run(site: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SGLANG_")}
    environment |= {"PYTHONPATH": str(site), **variables}
    return subprocess.run(
        [sys.executable, "-W", "ignore", *command],
        env=environment, cwd=site, text=True, capture_output=True, check=False, timeout=300,
    )  # fmt: skip


def test_doctor_names_it(site: Path) -> None:
    (site / "sglang_platform/example_oot/platform.py").unlink()
    done = _run(site, "-c", "from sglang_platform.core.cli import main; main()", "doctor", "--source-only")
    assert done.returncode == 1, done.stderr
    assert "[files-damaged]" in done.stdout
    assert "--force-reinstall" in done.stdout
