"""Damaged and hostile wheels, folders and metadata: a line, a status and no traceback, in bounded memory and time."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "programs" / "limited_command.py"
TARGET = "sglang.srt.hostile:Thing.run"
GOOD = "class Thing:\n    def run(self):\n        pass\n\n\ndef main():\n    Thing().run()\n"


def hooks_check(host: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [
            sys.executable,
            str(PROGRAM),
            "1024",
            "hooks",
            "check",
            "--host",
            str(host),
            *(arguments or (TARGET,)),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def wheel(path: Path, hostile: bytes | str, **others: str) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("sglang/__init__.py", "")
        archive.writestr("sglang/srt/__init__.py", "")
        archive.writestr("sglang/srt/hostile.py", hostile)
        for name, text in others.items():
            archive.writestr(name, text)
    return path


def bad_crc(path: Path) -> Path:
    wheel(path, GOOD)
    with zipfile.ZipFile(path) as archive:
        entry = archive.getinfo("sglang/srt/hostile.py")
    content = bytearray(path.read_bytes())
    begin = entry.header_offset + 30 + len(entry.filename) + 4
    content[begin] ^= 0xFF
    path.write_bytes(content)
    return path


def encrypted(path: Path) -> Path:
    wheel(path, GOOD)
    content = bytearray(path.read_bytes())
    for signature, flag in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        begin = -1
        while (begin := content.find(signature, begin + 1)) >= 0:
            content[begin + flag] |= 1
    path.write_bytes(content)
    return path


def bomb(path: Path) -> Path:
    return wheel(path, b"#" * (300 << 20))


def other_text(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("sglang/__init__.py", "")
        archive.writestr("sglang/srt/hostile.py", GOOD)
        archive.writestr("sglang-1.dist-info/METADATA", b"Name: \xff\xfe\nVersion: 1\n")
        archive.writestr("sglang-1.dist-info/entry_points.txt", b"[console_scripts]\n\xff = a:b\n")
    return path


WHEELS: list[tuple[Callable[[Path], Path], int, str]] = [
    (bad_crc, 0, "cannot be read: "),
    (encrypted, 0, "encrypted"),
    (bomb, 0, "larger than 4 MiB"),
    (other_text, 0, "exists"),
    (lambda path: wheel(path, "x = " + "(" * 5000 + ")" * 5000), 0, "cannot be parsed"),
    (lambda path: wheel(path, "x = " + "+".join(["1"] * 50000)), 0, "cannot be parsed"),
    (lambda path: wheel(path, b"\xff\xfe" + GOOD.encode("utf-16-le")), 0, "cannot be parsed"),
    (lambda path: wheel(path, b"\0" * 100), 0, "cannot be parsed"),
    (lambda path: Path(path.write_text("no archive") and path), 2, "cannot be read as a wheel"),
    (
        lambda path: Path(path.write_bytes(b"PK\x05\x06" + b"\xff" * 18) and path),
        2,
        "cannot be read as a wheel",
    ),
]


@pytest.mark.parametrize("number", range(len(WHEELS)))
def test_a_wheel_that_cannot_be_read(number: int, tmp_path: Path) -> None:
    make, status, words = WHEELS[number]
    done = hooks_check(make(tmp_path / "sglang-1-py3-none-any.whl"))
    assert words in " ".join((done.stdout + done.stderr).split()), done.stdout + done.stderr
    assert done.returncode == status, done.stdout + done.stderr


@pytest.mark.parametrize("depth", [150, 400, 900])
def test_an_expression_as_deep_as_python_parses(depth: int, tmp_path: Path) -> None:
    """Deep enough for Python to parse it, too deep for those who walk through it: it is told, whatever it is."""
    text = (
        "import os\nx = os"
        + ".path" * depth
        + "\ny = "
        + "-" * depth
        + "1\nz = "
        + "+".join(["x"] * depth)
        + "\n"
    )
    done = hooks_check(wheel(tmp_path / "sglang.whl", f"{text}\n{GOOD}"))
    assert done.returncode in (0, 3)
    if done.returncode == 3:
        assert "sglang-platform could not finish this command" in done.stderr
        assert "nested deeper" in done.stderr


def test_a_folder_with_links_pipes_and_a_huge_file(tmp_path: Path) -> None:
    folder = tmp_path / "sglang" / "srt"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    (folder / "__init__.py").touch()
    (folder / "hostile.py").write_text(GOOD)
    (folder / "dangling.py").symlink_to("nowhere.py")
    (folder / "itself.py").symlink_to("itself.py")
    (folder / "loop").symlink_to(folder, target_is_directory=True)
    (folder / "directory.py").mkdir()
    os.mkfifo(folder / "pipe.py")
    with (folder / "huge.py").open("wb") as file:
        file.truncate(100 << 20)
    (tmp_path / "pyproject.toml").write_bytes(b"\xff\xfe")
    assert hooks_check(tmp_path).returncode == 0
    for name, words in {
        "dangling": "No such file",
        "itself": "symbolic links",
        "pipe": "no plain file",
        "huge": "larger than 4 MiB",
    }.items():
        done = hooks_check(tmp_path, f"sglang.srt.{name}:Thing.run")
        assert words in " ".join(done.stdout.split()), (name, done.stdout, done.stderr)
    for source in (folder, folder / "huge.py", folder / "pipe.py", folder / "itself.py"):
        assert hooks_check(tmp_path, TARGET, "--plugin", str(source)).returncode in (0, 2)


ENTRY_POINTS = {
    "a malformed line": b"[sglang.srt.platforms]\nmine\n",
    "ini style": b"[sglang.srt.platforms]\nmine: pkg:activate\n",
    "a continuation": b"[sglang.srt.platforms]\nmine =\n  pkg:activate\n  more\n",
    "not UTF-8": b"[sglang.srt.platforms]\nm\xff = pkg:activate\n",
    "UTF-16": "[sglang.srt.platforms]\nmine = pkg:activate\n".encode("utf-16"),
    "a byte-order mark": b"\xef\xbb\xbf[sglang.srt.platforms]\nmine = pkg:activate\n",
    "blanks in the brackets": b"[ sglang.srt.platforms ]\nmine = pkg:activate\n",
    "another case": b"[SGLang.SRT.Platforms]\nmine = pkg:activate\n",
    "a link to itself": "loop",
    "a pipe": "pipe",
    "a device without an end": "/dev/zero",
    "a directory": "directory",
    "larger than any": b"[sglang.srt.platforms]\n" + b"mine = pkg:activate\n" * (1 << 18),
}


@pytest.mark.sample(13)
@pytest.mark.parametrize("kind", ENTRY_POINTS)
def test_entry_points_that_cannot_be_read_are_refused_by_name(kind: str, command) -> None:
    info = command.folder / "vendor_dist-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_bytes(b"Name: vendor-dist\nVersion: 1.0\nSummary: \xff\n")
    file, content = info / "entry_points.txt", ENTRY_POINTS[kind]
    if content == "loop":
        file.symlink_to(file)
    elif content == "pipe":
        os.mkfifo(file)
    elif content == "directory":
        file.mkdir()
    elif content == "/dev/zero":
        file.symlink_to(content)
    else:
        file.write_bytes(content)  # type: ignore[arg-type]
    command.platform("other", "return None")
    for arguments, status in ((["info"], 1), (["list"], 0), (["doctor", "--source-only"], 1)):
        done = command(*arguments)
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode == status, (arguments, done.stdout, done.stderr)
        assert "entry_points.txt" in done.stdout + done.stderr, arguments
    refused = command("info").stderr
    assert f"{file} cannot be read" in refused
    assert "SGLANG_PLATFORM_ON_ERROR=warn" in refused
    assert command("info", SGLANG_PLATFORM_ON_ERROR="warn").returncode == 0


def test_a_platform_that_is_named_and_read_needs_no_other(command) -> None:
    command.platform("mine", 'return "mine_cls:Platform"')
    info = command.folder / "broken-1.0.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text("[sglang.srt.platforms]\nbroken\n")
    assert command("info").returncode == 1
    assert command("info", SGLANG_PLATFORM="mine").returncode == 0


def test_an_exception_whose_text_cannot_be_had(command) -> None:
    command.install(
        "rude",
        {
            "sglang.srt.platforms": {"rude": "rude_plugin:activate"},
            "sglang_platform.contract": {"rude": "v1"},
        },
        rude_plugin="""
            class Rude(Exception):
                def __str__(self):
                    raise ValueError("no")

            def activate():
                raise Rude()
        """,
    )
    done = command("info")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "Rude: (its text cannot be had: __str__ raises ValueError)" in done.stderr


def test_two_folders_of_one_distribution_side_by_side(command) -> None:
    command.platform("mine", 'return "mine_cls:Platform"')
    old = command.folder / "mine_dist-0.9.dist-info"
    old.mkdir()
    for name in ("METADATA", "entry_points.txt"):
        (old / name).write_text((command.folder / "mine_dist-1.0.dist-info" / name).read_text())
    findings = command.json("doctor", "--source-only")["findings"]
    (hidden,) = [one for one in findings if one["id"] == "distribution-hidden"]
    assert "lies beside it and has the same name" in hidden["why"]
