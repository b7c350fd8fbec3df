"""`sglang-platform new --torch-plugin`: few files that pass ruff, for the device type that the plugin registers."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomllib
import yaml
from command_runner import WIDE
from typer.testing import CliRunner

from sglang_platform.core.cli.app import app
from sglang_platform.devtools.template import torch_device
from sglang_platform.devtools.template.copying import write_plugin
from sglang_platform.devtools.template.names import VendorNames

REGISTERS = """
import types
import torch
torch.utils.rename_privateuse1_backend("{name}")
torch._register_device_module("{name}", types.ModuleType("torch.{name}"))
"""
PLUGINS = {
    "acme_torch": REGISTERS.format(name="acme"),
    "torch_npu": REGISTERS.format(name="npu"),
    "no_device": "",
    "without_its_driver": "raise ImportError('libacme.so: cannot open shared object file')",
    "ends": "raise SystemExit(3)",
    "two_lines": "raise OSError('no driver\\nread the manual')",
}


@pytest.fixture
def new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the command where the modules of PLUGINS are on the path."""
    for name, text in PLUGINS.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")

    def run(*words: str) -> tuple[int, str]:
        words = (*words, "--dir", str(tmp_path / "made"))
        result = CliRunner().invoke(app, ["new", *words], env={"COLUMNS": WIDE})
        return result.exit_code, result.output

    return run


def files(folder: Path) -> list[Path]:
    return sorted(one for one in folder.rglob("*") if one.is_file())


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("module", "options", "device_type"),
    [
        ("acme_torch", (), "acme"),
        ("acme_torch", ("--device-type", "acme"), "acme"),
        ("torch_npu", (), "npu"),  # the torch plugin has the name, whatever SGLang makes of it
        ("without_its_driver", ("--device-type", "acme"), "acme"),
        ("not_installed", ("--device-type", "acme"), "acme"),
        ("two_lines", ("--device-type", "mlu"), "mlu"),
    ],
)
def test_the_device_type_is_the_plugins(
    new: Any, tmp_path: Path, module: str, options: tuple[str, ...], device_type: str
) -> None:
    code, output = new("acme-card", "--torch-plugin", module, *options)
    assert code == 0, output
    package = tmp_path / "made" / "src" / "sglang_platform_acme_card"
    assert f'device_type = "{device_type}"' in (package / "device.py").read_text()
    assert f"import {module}  # noqa" in (package / "platform.py").read_text()


@pytest.mark.sample(11)
@pytest.mark.parametrize(
    ("words", "what", "fix"),
    [
        (("acme_torch", "--device-type", "amce"), "brings no device of type 'amce'", "registers 'acme'"),
        (("acme_torch", "--device-type", "Acme"), "cannot be a torch device type", ""),
        (("acme_torch", "--device-type", "acme:0"), "carries no index", ""),
        (("no_device",), "torch has no new device after `import no_device`", "registers the device"),
        (("without_its_driver",), "libacme.so: cannot open", "--device-type"),
        (("two_lines",), "import two_lines: OSError: no driver", "--device-type"),
        (("not_installed",), "No module named 'not_installed'", "install not_installed"),
        (("ends",), "ended with status 3", ""),
        (("a b",), "it is no name of a module", "such as torch_npu"),
        (("acme-torch",), "it is no name of a module", "such as torch_npu"),
        (("",), "it is no name of a module", "such as torch_npu"),
    ],
)
def test_what_cannot_be_is_refused_before_a_file_is_written(
    new: Any, tmp_path: Path, words: tuple[str, ...], what: str, fix: str
) -> None:
    code, output = new("acme", "--torch-plugin", *words)
    assert code == 1
    assert what in output
    assert fix in output
    assert "nothing was written" in output
    assert not (tmp_path / "made").exists()


def test_without_torch_nobody_guesses(new: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_device, "find_spec", lambda name: None)
    code, output = new("acme", "--torch-plugin", "acme_torch")
    assert code == 1
    assert "torch is not installed here" in output


def test_two_roads_at_once_are_not_understood(new: Any) -> None:
    code, output = new("acme", "--torch-plugin", "acme_torch", "--with-driver")
    assert code == 2
    assert "not both" in output


def test_help_names_both_roads() -> None:
    said = CliRunner().invoke(app, ["new", "--help"], env={"COLUMNS": WIDE}).output
    assert "--torch-plugin" in said
    assert "--with-driver" in said


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str], Path]:
    """Writes the package of this name, without asking torch."""

    def write(name: str) -> Path:
        write_plugin(VendorNames(name, "acme"), "acme_torch", tmp_path / "made")
        return tmp_path / "made"

    return write


@pytest.mark.parametrize("name", ["a", "acme", "acme-card", "a-b-c-d", "x9", "long-" + "e" * 35])
def test_the_files_are_few_whole_and_pass_ruff(written: Callable[[str], Path], name: str) -> None:
    """Under ruff's defaults, and under what the package itself says."""
    folder = written(name)
    made = files(folder)
    assert len(made) <= 10
    for one in made:
        assert not re.search(r"@\w+@|example.?oot", one.read_text()), one
        if one.suffix == ".py":
            ast.parse(one.read_text())
    for options in (["--isolated"], []):
        for words in (["check"], ["format", "--check"]):
            done = subprocess.run(
                [sys.executable, "-m", "ruff", *words, "--no-cache", *options, "."],
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stdout
    package = folder / "src" / f"sglang_platform_{name.replace('-', '_')}"
    lines = sum(len((package / one).read_text().splitlines()) for one in ("device.py", "platform.py"))
    assert lines <= 24
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert {"acme-torch", "torch>=2.11"} <= set(project["dependencies"])


def test_the_workflow_installs_what_there_is(written: Callable[[str], Path]) -> None:
    """No package of ours is taken from an index, until one has it."""
    workflow = yaml.safe_load((written("acme") / ".github" / "workflows" / "ci.yml").read_text())
    installed = [
        word
        for job in workflow["jobs"].values()
        for step in job["steps"]
        for word in step.get("run", "").split()
        if "sglang-platform" in word and "pip" in step["run"]
    ]
    assert len(installed) > 4
    root = Path(__file__).parents[4]
    for word in installed:
        assert word.startswith(".sglang-platform/"), word
        assert (root / word.removeprefix(".sglang-platform/") / "pyproject.toml").is_file(), word


def test_json_says_what_was_made(new: Any) -> None:
    code, output = new("acme", "--torch-plugin", "acme_torch", "--json")
    assert code == 0
    told = json.loads(output)
    assert told["torch_plugin"] == "acme_torch"
    assert told["device_type"] == "acme"
    assert len(told["files"]) <= 10


PROBES = {
    "all is here": ("", "answer"),
    "the torch plugin is missing": (
        "",
        "the torch plugin acme_torch is not installed pip install acme-torch",
    ),
    "no device": ("/dev/no-such-device*", "no device is here: no /dev/no-such-device*"),
    "a device": ("/dev/nul*", "answer"),
}


@pytest.mark.parametrize("case", PROBES)
def test_activate_says_why_not(written: Callable[[str], Path], tmp_path: Path, case: str) -> None:
    device_files, said = PROBES[case]
    (tmp_path / "acme_torch.py").write_text("")
    file = written("acme") / "src" / "sglang_platform_acme" / "__init__.py"
    file.write_text(file.read_text().replace('_DEVICE_FILES = ""', f'_DEVICE_FILES = "{device_files}"'))
    program = tmp_path / "elsewhere" / "asks.py"
    program.parent.mkdir()
    program.write_text(
        "import sys\nfrom sglang_platform_acme import activate\ntry:\n    print('answer', activate())\n"
        "except Exception as declined:\n    print(declined, declined.fix)\nassert 'torch' not in sys.modules\n"
    )
    where = [str(file.parents[1]), *([] if "missing" in case else [str(tmp_path)]), *sys.path]
    done = subprocess.run(
        [sys.executable, "-S", str(program)],
        env={"PYTHONPATH": ":".join(filter(None, where))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith(said), done.stdout + done.stderr
