"""`sglang-platform new`: the copy under a vendor's names, the names that are refused, folders that are left alone."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_runner import WIDE
from typer.testing import CliRunner

from sglang_platform.core.cli.app import app
from sglang_platform.devtools.template.names import VendorNames


def new(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["new", *arguments], env={"COLUMNS": WIDE})
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vendor") / "acme"
    code, output = new("acme-npu", "--device-type", "acme", "--dir", str(folder))
    assert code == 0, output
    return folder


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_nothing_of_the_examples_names_is_left(copy: Path) -> None:
    for path in files(copy):
        found = re.search(r"example[-_ ]?oot", path.read_text(), re.IGNORECASE)
        assert found is None, f"{path}: {found}"
        assert not re.search(r"example.?oot", str(path.relative_to(copy)), re.IGNORECASE)


def test_the_copy_is_whole_and_says_what_to_change(copy: Path) -> None:
    package = copy / "src" / "sglang_platform_acme_npu"
    for name in (
        "pyproject.toml",
        "noxfile.py",
        "README.md",
        "LICENSE",
        ".github/workflows/ci.yml",
        ".pre-commit-config.yaml",
        "tests",
    ):
        assert (copy / name).exists(), name
    assert (package / "csrc" / "device" / "fallback.cpp").exists()
    for path in files(package):
        if path.suffix == ".py":
            ast.parse(path.read_text())
    pyproject = (copy / "pyproject.toml").read_text()
    assert 'acme_npu = "sglang_platform_acme_npu:activate"' in pyproject
    assert "around_the_package" not in pyproject


def test_the_device_type_goes_where_torch_is_told(copy: Path) -> None:
    package = copy / "src" / "sglang_platform_acme_npu"
    assert 'NAME = "acme"' in (package / "device_type.py").read_text()
    assert "GraphImplRegistry, ACME," in (package / "csrc" / "device" / "graph.cpp").read_text()


def test_the_copy_is_a_platform(copy: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "programs" / "activate_the_copy.py")],
        env={"PYTHONPATH": str(copy / "src"), "SGLANG_PLATFORM": "acme_npu", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert "sglang_platform_acme_npu.platform:AcmeNpuPlatform" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("My-Device", "lower-case"),
        ("my device", "lower-case"),
        ("-device", "lower-case"),
        ("my--device", "lower-case"),
        ("9device", "begin with a letter"),
        ("a/b", "lower-case"),
        ("cuda", "SGLang has a platform of that name"),
        ("oot", "SGLang has a platform of that name"),
        ("example-oot", "has a package of that name"),
        ("my-example-oot", "which the copy replaces"),
        ("class", "word of Python"),
        ("d" * 41, "40 at most"),
    ],
)
def test_a_name_that_cannot_be_is_refused_with_the_reason(name: str, reason: str, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    code, output = new("--dir", str(target), "--", name)
    assert code == 1
    assert reason in output
    assert not target.exists()


def test_a_name_with_underscores_is_the_same_name() -> None:
    assert VendorNames.of("my_device") == VendorNames.of("my-device")
    assert VendorNames.of("my_device").classes == "MyDevice"


def test_an_existing_folder_is_never_touched(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("mine")
    for target in (tmp_path, tmp_path / "kept"):
        code, output = new("acme", "--dir", str(target))
        assert code == 1
        assert "exists already" in output
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept").read_text() == "mine"
