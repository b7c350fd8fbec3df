"""A platform whose entry point is missing, misspelt or broken stops the run with a message that says what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.stacks import completed

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]

_METADATA = "Metadata-Version: 2.1\nName: sglang-platform-example-oot\nVersion: 0.1.0\n"


def _installed_as(folder: Path, entry_points: str) -> dict[str, str]:
    """An environment in which the example distribution is found with these entry points instead of its own."""
    info = folder / "sglang_platform_example_oot-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(_METADATA)
    (info / "entry_points.txt").write_text(entry_points)
    (folder / "broken_plugin.py").write_text("import a_library_that_is_not_installed\n")
    return {**os.environ, "PYTHONPATH": str(folder)}


def _generate(environment: dict[str, str], folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return completed(
        [
            sys.executable,
            "-m",
            "sglang_platform.conformance.host.generate",
            "--models",
            str(folder),
            *arguments,
        ],
        env={**environment, "COLUMNS": "200"},
        seconds=600,
    )


FAULTS = {
    "removed": ("", ["example_oot", "names no installed plugin", "fix:"]),
    "misspelt": (
        "[sglang.srt.platforms]\nexampel_oot = sglang_platform.example_oot:activate\n",
        ["example_oot", "exampel_oot", "fix:"],
    ),
    "failing at import": (
        "[sglang.srt.platforms]\nexample_oot = broken_plugin:activate\n",
        ["example_oot (sglang-platform-example-oot 0.1.0)", "a_library_that_is_not_installed", "fix:"],
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_generate_stops_before_it_starts_an_engine(fault: str, tmp_path: Path, models: Path) -> None:
    entry_points, expected = FAULTS[fault]
    run = _generate(_installed_as(tmp_path / "site", entry_points), models)
    said = run.stdout + run.stderr
    assert run.returncode == 1, said
    assert [part for part in expected if part not in said] == []
    assert "SGLang is up" not in said
    assert "Traceback" not in said


def test_a_misspelt_name_offers_the_nearest(models: Path) -> None:
    run = _generate(dict(os.environ), models, "--platform", "exmaple_oot")
    assert run.returncode == 1
    assert "example_oot" in run.stdout + run.stderr


def test_sglang_itself_refuses_a_platform_of_ours_that_fails(tmp_path: Path, models: Path) -> None:
    """Without our preflight: SGLang asks the plugin, and our decorator does not let it go on without the device."""
    site = tmp_path / "site"
    entry_points = "[sglang.srt.platforms]\nexample_oot = failing_plugin:activate\n"
    environment = _installed_as(site, entry_points)
    (site / "failing_plugin.py").write_text(
        "from sglang_platform.core import platform_plugin\n"
        "@platform_plugin\n"
        "def activate():\n"
        "    raise OSError('the driver does not answer')\n"
    )
    environment.pop("SGLANG_PLATFORM", None)
    run = completed(
        [
            sys.executable,
            "-W",
            "ignore",
            "-c",
            "import sglang.srt.platforms as p; print('GOT', p.current_platform)",
        ],
        env=environment,
        seconds=600,
    )
    assert run.returncode != 0
    assert "GOT" not in run.stdout
    for part in ("example_oot (sglang-platform-example-oot 0.1.0)", "the driver does not answer", "fix:"):
        assert part in run.stderr, run.stderr


def test_a_device_that_is_not_the_platforms_is_refused(models: Path) -> None:
    checkpoint = make_checkpoint(models / "llama", "llama")
    run = completed(
        [Path(sys.executable).with_name("sglang"), "serve", "--model-path", checkpoint, "--device", "cpu"],
        env={**os.environ, "SGLANG_PLATFORM": "example_oot"},
        seconds=600,
    )
    assert run.returncode == 1
    for part in ("device 'cpu'", "example_oot (sglang-platform-example-oot", "leave out --device"):
        assert part in run.stderr, run.stderr[-3000:]
