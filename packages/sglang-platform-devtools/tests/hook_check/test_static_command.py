"""`sglang-platform hooks check`: what it prints, its exit status, and that it stays light."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from click.testing import Result
from command_runner import WIDE, Command, sources_of
from typer.testing import CliRunner

from sglang_platform.core.cli.app import app

NOW = {
    "host.__init__": "",
    "host.mod": "def same(): pass\ndef other(x, y): pass\ndef unused(): pass\ndef g(): same(), other()",
    "host.new": "def gone(): pass",
}
TARGETS = [
    "host.mod:same",
    "host.mod:unused",
    "host.mod:gone",
    "host.mod:never",
    "elsewhere.m:f",
]
VERDICTS = ["exists", "bypassed", "moved", "missing", "unknown"]
MISFIT = """from sglang_platform.core import HookType, plugin_hook
@plugin_hook('host.mod:other', HookType.BEFORE)
def short(x): pass
"""


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["hooks", "check", *map(str, arguments)], env={"COLUMNS": WIDE})


def document(*arguments: str | Path, status: int) -> dict:
    result = run(*arguments, "--json")
    assert result.exit_code == status, result.output
    return json.loads(result.stdout)


@pytest.fixture
def misfit(tmp_path: Path) -> Path:
    """A plugin whose hook does not fit its target."""
    path = tmp_path / "misfit.py"
    path.write_text(MISFIT)
    return path


def test_every_verdict_in_one_json_document(wheel, misfit) -> None:
    found = document(*TARGETS, "--plugin", misfit, "--host", wheel(NOW), status=1)
    assert found["host"] == "host 2 (host-2-py3-none-any.whl)"
    assert found["unread"] == []
    rows = found["targets"]
    assert [row["target"] for row in rows] == [*TARGETS, "host.mod:other"]
    assert [row["verdict"] for row in rows] == [*VERDICTS, "changed"]
    assert rows[2]["moved_to"] == ["host.new:gone"]
    assert (rows[0]["defined_at"], rows[0]["line"], rows[0]["why"]) == ("host.mod:same", 1, None)


def test_every_verdict_in_the_table(wheel, misfit) -> None:
    result = run(*TARGETS, "--plugin", misfit, "--host", wheel(NOW))
    assert result.exit_code == 1
    for word in (*VERDICTS, "changed", *TARGETS, "host.new:gone", "no place for y"):
        assert word in result.stdout
    assert "6 hook targets in host 2 (host-2-py3-none-any.whl): 1 exists, 1 bypassed" in result.stdout


@pytest.mark.parametrize(("target", "status"), list(zip(TARGETS, (0, 1, 1, 1, 0), strict=True)), ids=VERDICTS)
def test_the_exit_status_tells_whether_there_is_a_problem(wheel, target, status) -> None:
    assert run(target, "--host", wheel(NOW)).exit_code == status


def test_targets_come_from_a_file_too(wheel, tmp_path) -> None:
    (tmp_path / "targets.txt").write_text("# ours\nhost.mod:same   # the main one\n\nhost.mod.never\n")
    found = document("host.mod:g", "--targets", tmp_path / "targets.txt", "--host", wheel(NOW), status=1)
    assert [row["target"] for row in found["targets"]] == ["host.mod:g", "host.mod:same", "host.mod.never"]


def test_hooks_come_from_a_plugin_s_source(wheel, tmp_path) -> None:
    plugin = tmp_path / "vendor"
    plugin.mkdir()
    (plugin / "__init__.py").write_text(
        "from sglang_platform.core import HookRegistry, HookType, plugin_hook\n"
        "@plugin_hook('host.mod:same', required=False)\n"
        "def fits(result): pass\n"
        "@plugin_hook('host.mod:other', HookType.BEFORE)\n"
        "def short(x): pass\n"
        "@plugin_hook('host.mod:perhaps', required=False)\n"
        "def optional(): pass\n"
        "def register(target):\n"
        "    HookRegistry.register(target, fits)\n"
        "raise SystemExit('imported')\n"
    )
    found = document("--plugin", plugin, "--host", wheel(NOW), status=1)
    rows = found["targets"]
    assert [(row["verdict"], row["hook"], row["type"], row["required"]) for row in rows] == [
        ("exists", "fits", "after", False),
        ("changed", "short", "before", True),
        ("missing", "optional", "after", False),
    ]
    assert rows[1]["why"].startswith("the hook short does not fit")
    assert rows[1]["where"].endswith("vendor/__init__.py:4")
    assert [place.rpartition("/")[2] for place in found["unread"]] == ["__init__.py:9"]
    result = run("--plugin", plugin, "--host", wheel(NOW))
    assert "host.mod:perhaps (optional)" in result.stdout
    assert "not checked, its target is not in the source" in result.stdout


def test_an_optional_hook_that_finds_nothing_is_no_problem(wheel, tmp_path) -> None:
    plugin = tmp_path / "plugin.py"
    plugin.write_text("@plugin_hook('host.mod:never', required=False)\ndef h(r): pass\n")
    assert run("--plugin", plugin, "--host", wheel(NOW)).exit_code == 0


REFUSED = {
    "a malformed target": (["not a target"], "is not a hook target"),
    "no such host": (["host.mod:f", "--host", "no/such.whl"], "is no host that can be read"),
    "no such file of targets": (["--targets", "no/such.txt"], "cannot be read"),
    "no such plugin": (["--plugin", "no/such/plugin"], "names no installed plugin"),
    "another version than the installed": (["sglang.x:f", "--host", "0.0.1"], "is not installed"),
}


@pytest.mark.parametrize(("arguments", "what"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_read_has_an_exit_status_of_its_own(wheel, arguments, what) -> None:
    if "--host" not in arguments:
        arguments = [*arguments, "--host", str(wheel(NOW))]
    result = run(*arguments)
    assert result.exit_code == 2
    assert what in result.stderr
    assert "Traceback" not in result.output
    error = document(*arguments, status=2)["error"]
    assert what in error["what"]


def test_an_unknown_option_is_not_understood() -> None:
    assert run("--hots", "x").exit_code == 2


@pytest.fixture
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment with the command's own libraries, devtools, a host and a general plugin, and nothing else."""
    folder = tmp_path_factory.mktemp("site")
    for entry in Path(typer.__file__).parents[1].iterdir():
        if entry.suffix not in (".dist-info", ".egg-info", ".pth") and not entry.name.startswith("sglang"):
            (folder / entry.name).symlink_to(entry)
    bomb = "raise SystemExit('imported')\n"
    for name, group, text in (
        ("made_host", "console_scripts", "def f(): pass\ndef g(): f()\n"),
        ("made_vendor", "sglang.srt.plugins", "@plugin_hook('made_host:f')\ndef h(result): pass\n"),
    ):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(text + bomb)
        info = folder / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {name}:h\n")
    entry_points = {"hooks.check": "sglang_platform.devtools.cli.hooks_check:check"}
    Command(folder, folder).install("devtools", {"sglang_platform.cli": entry_points})
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SGLANG_")}
    path = [str(folder), *sources_of("core", "devtools")]
    return {**clean, "PYTHONPATH": os.pathsep.join(path)}


def test_the_hooks_of_the_installed_plugins_are_checked_on_the_installed_host(alone) -> None:
    result = subprocess.run(
        [
            sys.executable,
            "-S",
            str(Path(__file__).parent / "programs" / "check_hooks_lightly.py"),
            "hooks",
            "check",
            "--json",
        ],
        env=alone,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    found = json.loads(result.stdout)
    assert found["host"] == "made_host 1.0 (installed)"
    (row,) = found["targets"]
    assert (row["verdict"], row["plugin"], row["hook"]) == ("exists", "made_vendor (made_vendor 1.0)", "h")
