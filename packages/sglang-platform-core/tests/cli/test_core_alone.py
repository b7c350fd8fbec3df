"""The command where core is installed and devtools is not, and the progress that a slow command shows."""

from __future__ import annotations

import json

import pytest

INSTALL = "is for developers of plugins: pip install sglang-platform-devtools\n"
HERE = "return 'here_cls:Platform'"
SLOW = "import time; time.sleep(2.5); return 'here_cls:Platform'"


@pytest.mark.parametrize("arguments", ["list", "info", "doctor", "hooks report", "--help", "hooks --help"])
def test_what_operates_plugins_works(command, arguments: str) -> None:
    command.platform("here", HERE)
    run = command(*arguments.split())
    assert run.returncode == 0, run.stderr
    assert run.stdout
    assert "devtools" not in run.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        "new acme",
        "check .",
        "check --help",
        "upgrade . --from 0.5.22",
        "host",
        "host ops --json",
        "hooks check --host x",
    ],
)
def test_what_is_for_developers_says_what_to_install(command, arguments: str) -> None:
    run = command(*arguments.split())
    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr.endswith(INSTALL)
    assert run.stderr.count("\n") == 1


def test_help_lists_what_devtools_brings(command) -> None:
    text = " ".join(command("--help", COLUMNS="200").stdout.split())
    for name in ("new", "check", "upgrade", "host"):
        assert f" {name} " in text
    assert text.count("Needs sglang-platform-devtools.") == 4


@pytest.mark.long
def test_doctor_says_what_it_does_once_it_takes_two_seconds(command) -> None:
    command.platform("here", SLOW)
    run = command("doctor")
    (first, *_) = run.stderr.splitlines()
    assert first.startswith("here (here-dist 1.0): activate() at ")
    assert first.endswith(" ...")
    assert first not in run.stdout
    run = command("doctor", "--json")
    assert run.stderr == ""
    assert json.loads(run.stdout)["findings"]
