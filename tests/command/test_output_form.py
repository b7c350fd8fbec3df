"""Every subcommand in a pipe: 80 columns, no escape codes, only JSON with `--json`, its exit status.

The subcommands are those of the command itself: one that is new fails here until it has a case.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from command_runner import too_wide

from sglang_platform.conformance.cli import app as conformance
from sglang_platform.core.cli.app import app as own
from sglang_platform.devtools.cli import check, hooks_check, host, new, upgrade

REPOSITORY = Path(__file__).parents[2]
EXAMPLE = str(REPOSITORY / "packages" / "sglang-platform-example-oot")
REPORT = "the report of a run"
CHECK = "packaging.one_platform_is_active"

CASES: dict[str, list[tuple[str, int]]] = {
    "list": [("", 0), ("example_oot", 0), ("--explain", 0), ("--explain --diffusion", 0), ("nothing", 2)],
    "info": [("", 0), ("example_oot", 0), ("--diffusion", 0), ("cuda", 1), ("nothing", 2)],
    "doctor": [("--source-only", 0), ("--source-only sglang-platform-rocm", 0), ("nothing", 2)],
    "new": [("acme-npu", 0), ("cuda", 1)],
    "hooks report": [("", 0), ("example_oot", 0), ("nothing", 2)],
    "hooks check": [
        ("sglang.srt.managers.scheduler:Scheduler.run_batch", 0),
        ("sglang.srt.managers.scheduler:Scheduler.run_batches", 1),
        ("sglang.x:f --host 0.0.1", 2),
    ],
    "check": [(f"{EXAMPLE} --source-only", 3), ("nothing", 2)],
    "upgrade": [("example_oot --from installed", 3), ("nothing --from installed", 2)],
    "host ops": [("", 0), ("--host nothing", 2)],
    "host requirements": [("--host installed", 0), ("--host nothing", 2)],
    "host assumptions": [("--feature lora", 0), ("--host nothing", 2)],
    "conformance": [
        (f"--platform example_oot --check {CHECK}", 0),
        (f"--platform example_oot --check {CHECK} --report report", 0),
        ("--platform nothing", 2),
        ("--level nothing", 2),
    ],
    "conformance list": [("", 0), ("--level nothing", 2)],
    "conformance compare": [("report report", 0), ("report nothing", 2)],
    "conformance merge": [("report", 2), ("nothing", 2)],
    "conformance verify": [("report", 0), ("nothing", 2)],
    "conformance pages": [(CHECK, 0), ("nothing", 2)],
    "conformance table": [("report", 0), ("nothing", 2)],
    "conformance features": [("report", 0), ("nothing", 2)],
    "conformance kits": [("nothing", 2)],
}
"""Subcommand -> (arguments, exit status)."""

PAGES = {"conformance pages", "conformance table", "conformance features", "conformance kits"}
"""They print a page in Markdown, and have no `--json`."""

DOCUMENTS = PAGES | {"host requirements"}
"""No terminal breaks their lines."""


def leaves() -> dict[str, Any]:
    """Every subcommand, with those of the other distributions."""

    def walk(command: Any, name: str) -> Iterator[tuple[str, Any]]:
        subcommands = getattr(command, "commands", {})
        if not subcommands or (command.invoke_without_command and name):
            yield name, command
        for word, one in subcommands.items():
            yield from walk(one, f"{name} {word}".strip())

    single = {}
    for name, function in (
        ("check", check.check),
        ("new", new.new),
        ("upgrade", upgrade.upgrade),
        ("hooks check", hooks_check.check),
    ):
        made = typer.Typer()
        made.command()(function)
        single[name] = typer.main.get_command(made)
    groups = (("", own), ("host", host.host), ("conformance", conformance))
    return dict(one for name, app in groups for one in walk(typer.main.get_command(app), name)) | single


def test_every_subcommand_has_a_case() -> None:
    assert set(CASES) == set(leaves())


def test_every_subcommand_has_json_but_those_that_print_a_page() -> None:
    without = {
        name for name, one in leaves().items() if "--json" not in [opt for p in one.params for opt in p.opts]
    }
    assert without == PAGES


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the report of a run."""
    folder = tmp_path_factory.mktemp("shell")
    done = command(f"conformance --platform example_oot --check {CHECK} --report report", folder)
    assert done.returncode == 0, done.stderr
    return folder


def command(words: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {
        name: value
        for name, value in os.environ.items()
        if name not in ("COLUMNS", "FORCE_COLOR") and not name.startswith("SGLANG_")
    }
    return subprocess.run(
        [sys.executable, "-c", "from sglang_platform.core.cli import main; main()", *words.split()],
        cwd=folder,
        env={**clean, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


SLOW = ("check", "upgrade", "host assumptions")
"""They read all of SGLang."""

RUNS = [
    pytest.param(
        f"{name} {words}".strip(),
        name,
        status,
        marks=[pytest.mark.long] if name in SLOW and status != 2 else [],
        id=f"{name} {words}".replace(EXAMPLE, "FOLDER").strip(),
    )
    for name, cases in CASES.items()
    for words, status in cases
]


@pytest.mark.sample(50)
@pytest.mark.parametrize(("words", "name", "status"), RUNS)
def test_text_in_a_pipe(words: str, name: str, status: int, folder: Path, tmp_path: Path) -> None:
    where = tmp_path if name == "new" else folder
    done = command(words, where, NO_COLOR="1")
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert not too_wide(done.stderr)
    assert name in DOCUMENTS or not too_wide(done.stdout)
    assert not re.search(r" +$", done.stdout, re.MULTILINE)
    assert "…" not in done.stdout + done.stderr


@pytest.mark.sample(50)
@pytest.mark.parametrize(("words", "name", "status"), RUNS)
def test_json_is_all_that_goes_to_standard_output(
    words: str, name: str, status: int, folder: Path, tmp_path: Path
) -> None:
    if name in PAGES:
        pytest.skip("a page")
    done = command(f"{words} --json", tmp_path if name == "new" else folder)
    assert done.returncode == status, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert status != 2 or {"what", "why", "fix"} <= document["error"].keys()


WIDTHS = ["list", "list --explain", "info", "hooks check sglang.x:f", "host ops", "doctor --source-only rocm"]


@pytest.mark.sample(24)
@pytest.mark.parametrize("columns", [20, 40, 72, 120])
@pytest.mark.parametrize("words", WIDTHS)
def test_columns_is_respected(words: str, columns: int, folder: Path) -> None:
    done = command(words, folder, COLUMNS=str(columns))
    assert not too_wide(done.stdout, columns)


def test_a_terminal_without_colours(folder: Path) -> None:
    code = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)"
    program = "from sglang_platform.core.cli import main; main()"
    for variables, coloured in (({"NO_COLOR": "1"}, False), ({}, True)):
        done = subprocess.run(
            [sys.executable, "-c", code, sys.executable, "-c", program, "list", "--explain"],
            cwd=folder,
            env={**os.environ, "TERM": "xterm-256color", "SGLANG_PLATFORM": "example_oot", **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert bool(re.search(r"\x1b\[[0-9;]*3[0-7]m", done.stdout)) == coloured, done.stdout


@pytest.mark.parametrize(
    "words", ["", "list", "hooks", "hooks check", "host ops", "check", "conformance list"]
)
def test_help_is_short_and_long(words: str, folder: Path) -> None:
    short, long = (command(f"{words} {option}", folder) for option in ("-h", "--help"))
    assert short.returncode == 0
    assert short.stdout == long.stdout
    assert "Usage: sglang-platform" in short.stdout
    assert not too_wide(short.stdout)


def test_the_version(folder: Path) -> None:
    done = command("--version", folder)
    assert re.fullmatch(r"sglang-platform \d+\.\d+\.\d+\n", done.stdout)


COMPLETED = {
    "sglang-platform l": "list",
    "sglang-platform ch": "check",
    "sglang-platform hooks ": "check",
    "sglang-platform host a": "assumptions",
    "sglang-platform info ex": "example_oot",
    "sglang-platform doctor sglang-platform-r": "sglang-platform-rocm",
    "sglang-platform upgrade sglang-platform-c": "sglang-platform-cuda",
    "sglang-platform check --so": "--source-only",
    "sglang-platform conformance --platform r": "rocm",
    "sglang-platform conformance ver": "verify",
}


@pytest.mark.parametrize("line", COMPLETED)
def test_the_shell_completes(line: str, folder: Path) -> None:
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    done = command("", folder, _SGLANG_PLATFORM_COMPLETE="complete_bash", **words)
    assert COMPLETED[line] in done.stdout.split(), done.stdout + done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell(shell: str, folder: Path) -> None:
    done = command("", folder, _SGLANG_PLATFORM_COMPLETE=f"source_{shell}")
    assert "_SGLANG_PLATFORM_COMPLETE" in done.stdout


def test_a_refusal_is_told_once_and_nothing_of_our_own_files(folder: Path) -> None:
    done = command("list --explain", folder, SGLANG_PLATFORM="exmaple_oot")
    told = done.stdout + done.stderr
    assert told.count("names no installed platform plugin") == 1
    assert "asked for by" not in told
    assert "core/cli" not in told


UNASKED = ["list", "list --explain", "info", "info example_oot", "doctor --source-only"]


@pytest.mark.sample(5)
@pytest.mark.parametrize("words", UNASKED)
def test_the_diffusion_runtime_is_shown_where_it_is_used_or_asked_for(words: str, folder: Path) -> None:
    plain = command(words, folder).stdout
    lines = [line for line in plain.splitlines() if "diffusion" in line]
    assert lines == (["and 1 for the diffusion runtime: --diffusion"] if words.startswith("list") else [])
    named = command(words, folder, SGLANG_DIFFUSION_PLATFORM_OVERRIDE="example_oot").stdout
    assert "diffusion" in named.replace(lines[0] if lines else "\0", "")
    if not words.startswith("doctor"):
        assert "diffusion" in command(f"{words} --diffusion", folder).stdout
