"""Installed files that are missing, cut short or changed: one message, and no host that serves without us."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import importlib_metadata
import pytest
from installed_copy import install_copy

from sglang_platform.core.discovery.failures import plugin_failed
from sglang_platform.core.errors import LaunchRefused, PluginFailed, PluginOrigin
from sglang_platform.core.installed.damage import damage_behind, damage_of, told_as_damage

CORE, EXAMPLE = "sglang-platform-core", "sglang-platform-example-oot"
_PROGRAM = Path(__file__).parents[1] / "hosts" / "programs" / "serve_or_refuse.py"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Both distributions, installed, before those of this environment on the path."""
    folder = tmp_path / "site"
    for distribution in (CORE, EXAMPLE):
        install_copy(distribution, folder)
    monkeypatch.syspath_prepend(str(folder))
    return folder


def cut(file: Path) -> None:
    text = file.read_bytes()
    file.write_bytes(text[: len(text) // 2])


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


def test_a_plugin_that_fails_by_it_is_told_so(site: Path) -> None:
    (site / "sglang_platform/example_oot/platform.py").unlink()
    origin = PluginOrigin("example_oot", EXAMPLE, "0.1.0")
    error = plugin_failed("it failed", origin, ModuleNotFoundError("No module named 'platform'"))
    assert isinstance(error, PluginFailed)
    assert "sglang_platform/example_oot/platform.py is missing" in (error.why or "")
    assert "No module named 'platform'" in (error.why or "")
    assert "--force-reinstall" in (error.fix or "")
    assert damage_behind(RuntimeError("no driver"), EXAMPLE) is None


def test_a_module_that_is_missing_elsewhere_is_told_where_a_file_was_only_changed(site: Path) -> None:
    (site / "sglang_platform/example_oot/platform.py").open("a").write("# tried out\n")
    origin = PluginOrigin("example_oot", EXAMPLE, "0.1.0")
    error = plugin_failed(
        "it failed", origin, ModuleNotFoundError("No module named 'vendorlib'", name="vendorlib")
    )
    assert "pip install vendorlib" in (error.fix or "")
    assert "not as they were installed" in (plugin_failed("it failed", origin, ImportError("x")).why or "")


def test_an_error_that_is_no_damage_is_left(site: Path) -> None:
    with pytest.raises(ImportError, match="of another kind"), told_as_damage():
        raise ImportError("of another kind")
    cut(site / "sglang_platform/core/errors.py")
    with pytest.raises(LaunchRefused, match=r"core/errors\.py has \d+ bytes"), told_as_damage():
        raise ImportError("of another kind")


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
    assert done.returncode in (1, 3)
    assert "Traceback" not in done.stderr
    assert f"sglang_platform/core/{file} has" in done.stderr
    assert "--force-reinstall" in done.stderr


def test_doctor_names_it(site: Path) -> None:
    (site / "sglang_platform/example_oot/platform.py").unlink()
    done = _run(site, "-c", "from sglang_platform.core.cli import main; main()", "doctor", "--source-only")
    assert done.returncode == 1, done.stderr
    assert "[files-damaged]" in done.stdout
    assert "--force-reinstall" in done.stdout


_IN_CORE = "sglang_platform/core/"
DAMAGE: dict[str, tuple[str, Callable[[Path], object]]] = {
    "the adapter's plugin is gone": (f"{_IN_CORE}sglang/start/general_plugin.py", Path.unlink),
    "what the plugin loads is gone": (f"{_IN_CORE}sglang/start/launch.py", Path.unlink),
    "a seam is cut short": (f"{_IN_CORE}sglang/lora.py", cut),
    "a contract class is empty": (f"{_IN_CORE}contract/srt.py", lambda file: file.write_text("")),
    "discovery is gone": (f"{_IN_CORE}discovery/entry.py", Path.unlink),
    "the hooks are zeros": (f"{_IN_CORE}hooks/registry.py", lambda f: f.write_bytes(bytes(f.stat().st_size))),
    "the device's platform is gone": ("sglang_platform/example_oot/platform.py", Path.unlink),
    "the device's package is cut short": ("sglang_platform/example_oot/__init__.py", cut),
}


@pytest.mark.host
@pytest.mark.parametrize("name", DAMAGE)
def test_sglang_does_not_serve_on_its_own_platform_instead(site: Path, name: str) -> None:
    file, damage = DAMAGE[name]
    damage(site / file)
    done = _run(site, str(_PROGRAM), SGLANG_PLATFORM="example_oot")
    assert done.returncode == 1, done.stdout
    assert "serves on" not in done.stdout
    # SGLang imports this one before anything of ours: the error is its own.
    if file.endswith("example_oot/__init__.py"):
        assert "SyntaxError" in done.stderr
        return
    assert "Traceback" not in done.stderr
    assert f"{file} " in done.stderr
    assert done.stderr.count("pip install --force-reinstall --no-deps sglang-platform-") == 1
