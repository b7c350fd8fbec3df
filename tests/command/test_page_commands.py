"""Every command on the pages is run as it stands, or checked as far as a test can; one that is new to this file fails.

What a test cannot run has its reason in `UNRUN`, and the strongest check that costs little: the real parser of its
program, the session in `noxfile.py`, the folders and extras that pip is told to install.
"""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tomllib
import typer
from page_commands import REPOSITORY, PageCommand, page_commands

from sglang_platform.conformance.cli import app as conformance
from sglang_platform.core.cli.app import app
from sglang_platform.core.sglang.versions import known_releases
from sglang_platform.devtools.cli import check, hooks_check, host, new, upgrade

_PIP = (
    "import json, sys; from pip._internal.commands import create_command; "
    "options, names = create_command(sys.argv[1]).parse_args(sys.argv[2:]); "
    "print(json.dumps([*names, *options.editables]))"
)
"""In a process of its own: pip imports distutils, which setuptools refuses to find loaded."""

COMMANDS = [one for one in page_commands() if one.words]
EXAMPLE = REPOSITORY / "packages" / "sglang-platform-example-oot"

RUN = {
    "list": (0,),
    "list --explain": (0,),
    "info": (0,),
    "info --diffusion": (0,),
    "doctor": (0, 1),
    "hooks check": (0, 1),
    "host assumptions": (0,),
    "host ops": (0,),
    "host requirements": (0,),
    "host requirements --device none": (0,),
    "host requirements --host 0.5.23 --device none --output sglang.txt": (0,),
    "hooks report": (0,),
    "upgrade example_oot --from 0.5.20 --to 0.5.23": (0, 1, 3),
    "upgrade . --from 0.5.20 --to 0.5.23 --html upgrade.html": (0, 1, 3),
    "upgrade . --from 0.5.22 --to 0.5.23": (0, 1, 3),
    "host assumptions --host 0.5.22 --feature lora --all": (0,),
    "host assumptions --host 0.5.23 --all": (0,),
    "new acme-npu": (0,),
    "new acme-npu --dir acme-npu": (0,),
    "check .": (0, 1, 3),
    "check . --sarif check.sarif": (0, 1, 3),
    "check . --sarif check.sarif --html check.html": (0, 1, 3),
    "conformance list": (0,),
    "conformance list --level memory": (0,),
    "conformance pages 'memory.store_*'": (0,),
}
"""Words after `sglang-platform` -> the exit statuses that the page promises."""

QUICK = ("list", "info", "new", "conformance", "hooks report", "host ops")
DOWNLOADS = ("0.5.20", "0.5.22", "host requirements")
"""What a command fetches where it is not in the user's cache: releases, and the newest one's metadata."""

UNRUN = {
    "conformance": "conformance/tests/framework/test_documented_commands.py runs the examples of docs/conformance.md, "
    "`nox -s vendor_copy` walks the vendor guide, and `nox -s conformance-example-oot` the suite in SGLang",
    "hooks check": "it names a wheel and a module of the reader's",
    "check": "a mention without its argument, or with the reader's plugin",
    "upgrade": "it names the reader's plugin and releases",
    "new": "a mention without its argument, or with the reader's torch plugin",
    "info acme": "tests/first_hour runs the commands of docs/first_hour.md",
    "--install-completion": "it writes into the files of the reader's shell",
}
"""Subcommand -> why its other commands are only parsed, by the command's own parser."""

MODULES_OF_ARGPARSE = (
    "they take minutes, a device or a report; the parser of the program itself reads the options"
)
ARCHIVED = ("conformance/tests/mutants/unseen/run.py",)
"""Programs of the archive that a release has beside its files."""
NEEDS = {"benchmarks/upgrade/with_griffe.py": "griffe"}
"""A program -> what it imports that this environment lacks: its file is read instead."""


def ids(commands: list[PageCommand]) -> list[str]:
    return [f"{one.page}:{one.line} {' '.join(one.words)}"[:110] for one in commands]


def of(*programs: str) -> Any:
    chosen = [one for one in COMMANDS if one.program in programs]
    return pytest.mark.parametrize("command", chosen, ids=ids(chosen))


CHECKED = ("sglang-platform", "nox", "pip", "python", "pytest", "sglang", "cd", "tar", "pre-commit")
INSTALLED_ELSEWHERE = {
    "router/bin/pip": "an environment that the line before makes, with a package of SGLang's"
}


WALKED = "docs/vendor_guide.md"
"""`nox -s vendor_copy` runs each command of this page."""


def test_no_command_is_left_out() -> None:
    assert len(COMMANDS) > 120
    unknown = [
        str(one)
        for one in COMMANDS
        if one.program not in CHECKED and one.program not in INSTALLED_ELSEWHERE and one.page != WALKED
    ]
    assert unknown == []


# sglang-platform


def subcommand(words: tuple[str, ...]) -> tuple[Any, str, tuple[str, ...]]:
    """The command of the words, its name and its own arguments."""
    groups = {"host": host.host, "conformance": conformance}
    single = {
        "check": check.check,
        "new": new.new,
        "upgrade": upgrade.upgrade,
        "hooks check": hooks_check.check,
    }
    for count in (2, 1):
        name = " ".join(words[:count])
        if name in single:
            made = typer.Typer()
            made.command()(single[name])
            return typer.main.get_command(made), name, words[count:]
    root = groups.get(words[0] if words else "", app)
    command, rest = typer.main.get_command(root), words[1:] if root is not app else words
    name = words[0] if root is not app else ""
    while rest and rest[0] in getattr(command, "commands", {}):
        command, name, rest = command.commands[rest[0]], f"{name} {rest[0]}".strip(), rest[1:]
    return command, name, rest


@of("sglang-platform")
def test_a_command_of_ours_is_understood(command: PageCommand) -> None:
    parsed, name, rest = subcommand(command.words[1:])
    assert name or rest[0].startswith("-"), command
    if not name:  # an option that does its work while it is parsed
        assert set(rest) <= {word for one in parsed.params for word in one.opts}, command
        return
    try:
        parsed.make_context(name, list(rest))
    except typer.BadParameter as error:
        if command.fenced or "issing" not in str(error):
            raise


@of("sglang-platform")
def test_a_command_of_ours_is_run_or_says_why_not(command: PageCommand) -> None:
    text = " ".join(command.words[1:])
    known = {" ".join(one.split()).replace("'", "") for one in RUN}
    assert text in known or any(text.startswith(name) for name in UNRUN), command


def _marks(text: str) -> list[pytest.MarkDecorator]:
    return [] if text.startswith(QUICK) else [pytest.mark.long]


SHOWN = sorted({" ".join(one.words[1:]) for one in COMMANDS if one.program == "sglang-platform"})
TO_RUN = [pytest.param(one, marks=_marks(one)) for one in RUN if one.replace("'", "") in SHOWN]


@pytest.mark.sample(11)
@pytest.mark.parametrize("words", TO_RUN)
def test_a_command_does_what_the_page_says(words: str, tmp_path: Path) -> None:
    """From an empty folder; one on `.` from a copy of the example."""
    folder = tmp_path
    if " . " in f" {words} ":
        folder = tmp_path / "copy"
        ignored = shutil.ignore_patterns("tests", "__pycache__", ".*")
        shutil.copytree(EXAMPLE, folder, ignore=ignored)
    done = subprocess.run(
        f'"{sys.executable}" -c "from sglang_platform.core.cli import main; main()" {words}',
        shell=True,
        cwd=folder,
        env={name: value for name, value in os.environ.items() if not name.startswith("SGLANG_PLATFORM")},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    if "could not be downloaded" in done.stderr and any(release in words for release in DOWNLOADS):
        pytest.skip("no index here has that release")
    assert done.returncode in RUN[words], done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_what_is_to_run_is_on_a_page() -> None:
    assert {one for one in RUN if one.replace("'", "") not in SHOWN} == set()


# nox


def sessions(file: Path) -> set[str]:
    """The names that `nox -l` lists."""
    names = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.FunctionDef):
            continue
        for decorator in node.decorator_list:
            if ast.unparse(decorator).startswith("nox.session"):
                keywords = {one.arg: one.value for one in getattr(decorator, "keywords", [])}
                name = keywords.get("name")
                names.add(name.value if isinstance(name, ast.Constant) else node.name)
    return names


@of("nox")
def test_a_session_of_nox_exists(command: PageCommand) -> None:
    """A session builds environments and takes minutes to hours; CI runs those of `tests`."""
    is_example = command.page in (WALKED, "packages/sglang-platform-example-oot/README.md")
    known = sessions(REPOSITORY / "noxfile.py") | (sessions(EXAMPLE / "noxfile.py") if is_example else set())
    if command.words[1] != "-l":
        assert command.words[1] == "-s", command
        assert command.words[2] in known, command
        assert command.words[3:4] in ((), ("--",)), command


# pip, python, pytest


@of("pip")
def test_pip_is_told_what_exists(command: PageCommand) -> None:
    """Installing takes minutes and an index; `nox -s wheels` and `nox -s vendor_copy` do it."""
    assert command.words[1] in ("install", "wheel")
    parsed = subprocess.run(
        [sys.executable, "-c", _PIP, *command.words[1:]], capture_output=True, text=True, check=True
    )
    names = json.loads(parsed.stdout)
    ours = {one.parent.name for one in (REPOSITORY / "packages").glob("*/pyproject.toml")}
    ours.add("sglang-platform-conformance")
    copied = command.page in (WALKED, "docs/first_hour.md", "packages/sglang-platform-example-oot/README.md")
    for name in names:
        place, _, extras = name.replace("CHECKOUT/", "./").partition("[")
        if place.startswith("."):
            folder = EXAMPLE if place == "." and copied else REPOSITORY / place
            project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
            known = project.get("optional-dependencies", {})
            assert set(filter(None, extras.rstrip("]").split(","))) <= known.keys(), command
        elif name.startswith("sglang=="):
            assert name.partition("==")[2] in known_releases(), command
        else:
            assert place in ours | {"nox"}, command


@of("python")
def test_a_program_takes_its_options(command: PageCommand) -> None:
    words = list(command.words[1:])
    if words[:2] in (["-m", "pip"], ["-m", "venv"]) or words[0] in ARCHIVED:
        return
    if words[0] == "-m" and (found := getattr(importlib.import_module(words[1]), "app", None)) is not None:
        typer.main.get_command(found).make_context(words[1], words[2:])
        return
    if words[:2] == ["-m", "sglang_platform.conformance"]:
        typer.main.get_command(conformance).make_context("conformance", words[2:])
        return
    if words[0] != "-m":
        place = next(REPOSITORY.glob(words[0]))
        if words[0] in NEEDS:
            text = place.read_text(encoding="utf-8")
            assert all(word in text for word in words if word.startswith("--")), command
            return
        words[0] = str(place)
    program = Path(__file__).parent / "programs" / "parse_only.py"
    done = subprocess.run(
        [sys.executable, str(program), *words],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    assert done.stdout.endswith("parsed\n")


@of("pytest")
def test_pytest_is_given_tests_that_exist(command: PageCommand) -> None:
    """Those of the example build its kernels, which takes minutes; they are run with the example's own."""
    for word in command.words[1:]:
        if word.startswith("tests/"):
            assert (EXAMPLE / word).exists(), command
    if "--pyargs" in command.words:
        assert importlib.util.find_spec(command.words[command.words.index("--pyargs") + 1]) is not None


@of("sglang", "cd", "pre-commit")
def test_the_programs_of_others(command: PageCommand) -> None:
    """An engine is started by `nox -s generate`; the folder is the one that the line before makes."""
    if command.program == "sglang":
        sglang = importlib.metadata.distribution("sglang")
        assert "sglang" in {one.name for one in sglang.entry_points if one.group == "console_scripts"}
        assert any(str(file) == f"sglang/cli/{command.words[1]}.py" for file in sglang.files or ())
    if command.program == "cd":
        assert f"new {command.words[1]}" in (REPOSITORY / command.page).read_text(encoding="utf-8")
    if command.program == "pre-commit":
        assert (REPOSITORY / ".pre-commit-config.yaml").is_file()
