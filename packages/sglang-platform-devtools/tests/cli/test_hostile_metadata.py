"""A project's metadata of the wrong type, size or kind, and names that would steer a terminal: a line and a status."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from command_runner import WIDE

from sglang_platform.core.errors import ConfigurationError

PROGRAM = Path(__file__).parent / "programs" / "limited_command.py"


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "1024", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "COLUMNS": WIDE},
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.fixture
def host(tmp_path: Path) -> str:
    (tmp_path / "host" / "sglang" / "srt").mkdir(parents=True)
    for folder in ("sglang", "sglang/srt"):
        (tmp_path / "host" / folder / "__init__.py").touch()
    return str(tmp_path / "host")


def check(plugin: Path, host: str) -> str:
    done = command("check", str(plugin), "--host", host, "--source-only")
    assert done.returncode == 1, done.stdout + done.stderr
    return " ".join(done.stdout.split())


PROJECTS: dict[str, tuple[str | bytes, str]] = {
    "no list of requirements": ('[project]\nname = "p"\ndependencies = 7\n', "dependencies in pyproject.toml is 7"),
    "a name of two": ('[project]\nname = ["a", "b"]\n', "name in pyproject.toml is ['a', 'b']"),
    "a version without marks": ('[project]\nname = "p"\nversion = 3\n', "version in pyproject.toml is 3"),
    "entry points of no table": ('[project]\nentry-points = "x"\n', "entry-points in pyproject.toml is 'x'"),
    "a group of no table": (
        '[project.entry-points]\n"sglang.srt.platforms" = ["x"]\n',
        "the entry-point group sglang.srt.platforms in pyproject.toml is ['x']",
    ),
    "nested without end": ("a = " + "[" * 20000, "pyproject.toml cannot be read"),
    "100 MB": (b"#" * (100 << 20), "larger than 4 MiB"),
    "a pipe": ("pipe", "it is no plain file"),
    "a device": ("/dev/zero", "it is no plain file"),
    "a directory": ("directory", "Is a directory"),
}  # fmt: skip


@pytest.mark.parametrize("kind", PROJECTS)
def test_a_project_file_that_is_none(kind: str, tmp_path: Path, host: str) -> None:
    content, said = PROJECTS[kind]
    plugin = tmp_path / "plugin"
    plugin.mkdir()
    (plugin / "p.py").write_text("def activate():\n    return None\n")
    file = plugin / "pyproject.toml"
    if content == "pipe":
        os.mkfifo(file)
    elif content == "directory":
        file.mkdir()
    elif content == "/dev/zero":
        file.symlink_to(content)
    else:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert said in check(plugin, host)


def wheel(path: Path, entry_points: str, metadata: str = "") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("p.py", "")
        archive.writestr("p-1.dist-info/METADATA", f"Name: p\nVersion: 1\n{metadata}")
        archive.writestr("p-1.dist-info/entry_points.txt", entry_points)
    return path


def test_metadata_that_grows_when_it_is_unpacked(tmp_path: Path, host: str) -> None:
    bomb = wheel(tmp_path / "p-1-py3-none-any.whl", "", "\n" + "x" * (200 << 20))
    assert "p-1.dist-info/METADATA cannot be read: it is larger than 4 MiB" in check(bomb, host)


def test_entry_points_without_number(tmp_path: Path, host: str) -> None:
    lines = "".join(f"a{n} = nowhere:x\n" for n in range(20000))
    many = wheel(tmp_path / "p-1-py3-none-any.whl", f"[sglang.srt.platforms]\n{lines}")
    said = check(many, host)
    assert said.count("leads nowhere") == 50
    assert "19950 more entry points lead nowhere" in said


@pytest.mark.parametrize("kind", ["pipe", "device", "huge", "not UTF-8"])
def test_a_file_of_targets_that_is_none(kind: str, tmp_path: Path, host: str) -> None:
    file = tmp_path / "targets"
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "device":
        file.symlink_to("/dev/zero")
    else:
        file.write_bytes(b"#" * (100 << 20) if kind == "huge" else b"\xff\xfe")
    done = command("hooks", "check", "--host", host, "--targets", str(file))
    assert done.returncode == 2
    assert f"{file} cannot be read" in done.stderr


def test_names_do_not_steer_the_terminal(tmp_path: Path, host: str) -> None:
    plugin = tmp_path / "red\x1b[31m\x07\udcff"
    plugin.mkdir()
    (plugin / "p.py").touch()
    done = command("check", str(plugin), "--host", host, "--source-only")
    assert "red\\x1b[31m\\x07" in done.stdout
    missing = command("check", str(plugin / "gone"), "--host", host)
    for text in (done.stdout, done.stderr, missing.stdout, missing.stderr):
        assert "\x1b" not in text
        assert "\x07" not in text


def test_a_message_holds_no_character_that_steers() -> None:
    error = ConfigurationError("a\x1b]0;title\x07\n\tb", why="\udcff\x9b31m")
    assert str(error) == "a\\x1b]0;title\\x07\n\tb\n  why:    \\udcff\\x9b31m"
    assert error.what == "a\x1b]0;title\x07\n\tb"
