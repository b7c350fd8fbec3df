"""Installations that broke off: one message, and no SGLang that serves on its own platform instead."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from installed_copy import install_copy

from sglang_platform.core.discovery.damaged_install import refusing_without_core
from sglang_platform.core.errors import LaunchRefused

CORE, EXAMPLE = "sglang-platform-core", "sglang-platform-example-oot"
_PROGRAM = Path(__file__).parents[1] / "hosts" / "programs" / "serve_or_refuse.py"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Core and the example, as wheels install them, before those of this environment on the path."""
    for distribution in (CORE, EXAMPLE):
        install_copy(distribution, tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def cut(file: Path) -> None:
    text = file.read_bytes()
    file.write_bytes(text[: len(text) // 2])


def test_any_error_of_core_refuses_the_launch() -> None:
    with pytest.raises(LaunchRefused, match="ImportError: of some kind"), refusing_without_core():
        raise ImportError("of some kind")


def _run(site: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SGLANG_")}
    environment |= {"PYTHONPATH": str(site), **variables}
    return subprocess.run(
        [sys.executable, "-W", "ignore", *command],
        env=environment, cwd=site, text=True, capture_output=True, check=False, timeout=300,
    )  # fmt: skip


@pytest.mark.parametrize("file", ["cli/app.py", "cli/output.py", "discovery/scan.py"])
def test_a_command_of_damaged_core_says_so(site: Path, file: str) -> None:
    cut(site / "sglang_platform/core" / file)
    (site / "sglang_platform/core" / file).open("a").write("\n(")
    done = _run(site, "-c", "from sglang_platform.core.cli import main; main()", "list")
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    assert f"sglang_platform/core/{file}:" in done.stderr
    assert "--force-reinstall" in done.stderr


_IN_CORE = "sglang_platform/core/"
DAMAGE: dict[str, tuple[str, Callable[[Path], object]]] = {
    "the adapter's plugin is gone": (f"{_IN_CORE}sglang/start/general_plugin.py", Path.unlink),
    "what the plugin loads is gone": (f"{_IN_CORE}sglang/start/launch.py", Path.unlink),
    "an adapter file is cut short": (f"{_IN_CORE}sglang/lora.py", cut),
    "a contract class is empty": (f"{_IN_CORE}contract/srt.py", lambda file: file.write_text("")),
    "discovery is gone": (f"{_IN_CORE}discovery/entry.py", Path.unlink),
    "the hooks are zeros": (f"{_IN_CORE}hooks/registry.py", lambda f: f.write_bytes(bytes(f.stat().st_size))),
    "the device's platform is gone": ("sglang_platform/example_oot/platform.py", Path.unlink),
    "the device's package is cut short": ("sglang_platform/example_oot/__init__.py", cut),
}
_BEFORE_OURS = {
    "discovery is gone": "No module named 'sglang_platform.core.discovery.entry'",
    "the device's package is cut short": "SyntaxError",
}
"""SGLang imports these before anything of ours: the error is its own."""


@pytest.mark.sample(8)
@pytest.mark.host
@pytest.mark.parametrize("name", DAMAGE)
def test_sglang_does_not_serve_on_its_own_platform_instead(site: Path, name: str) -> None:
    file, damage = DAMAGE[name]
    damage(site / file)
    done = _run(site, str(_PROGRAM), SGLANG_PLATFORM="example_oot")
    assert done.returncode == 1, done.stdout
    assert "serves on" not in done.stdout
    if name in _BEFORE_OURS:
        assert _BEFORE_OURS[name] in done.stderr
        return
    assert "Traceback" not in done.stderr
    # Python's error does not name a file of zeros.
    module = file.removesuffix(".py").replace("/", ".")
    words = (file, module, "source code string cannot contain null bytes")
    assert any(one in done.stderr for one in words), done.stderr
    assert "--force-reinstall" in done.stderr or "install what provides" in done.stderr, done.stderr


@pytest.mark.long
@pytest.mark.host
def test_a_host_that_names_no_platform_is_refused_without_discovery(site: Path) -> None:
    (site / "sglang_platform/core/discovery/entry.py").unlink()
    done = _run(site, str(_PROGRAM))
    assert done.returncode == 1, done.stdout
    assert "No module named 'sglang_platform.core.discovery.entry'" in done.stderr
    assert "install what provides 'sglang_platform.core.discovery.entry'" in done.stderr
