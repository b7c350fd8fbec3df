"""Where a report is to be written and cannot be: a line that names the place, at once, and status 2."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest

from sglang_platform.core.errors import ConfigurationError
from sglang_platform.devtools.cli.output_file import ensure_writable, write_text

PLACES = {
    "a pipe that nobody reads": "it is a pipe that nobody reads",
    "a directory": "Is a directory",
    "below a file": "File exists",
    "a link to itself": "symbolic links",
    "where nobody may write": "/proc/report.html",
    "no more bytes": "No space left",
    "a null byte": "null byte",
    "a name without end": "File name too long",
}


def place(kind: str, folder: Path) -> Path:
    path = folder / "report.html"
    if kind.startswith("a pipe"):
        os.mkfifo(path)
    elif kind == "a directory":
        path.mkdir()
    elif kind == "below a file":
        path.touch()
        return path / "report.html"
    elif kind == "a link to itself":
        path.symlink_to(path)
    elif kind == "where nobody may write":
        return Path("/proc/report.html")
    elif kind == "no more bytes":
        path.symlink_to("/dev/full")
    elif kind == "a null byte":
        return folder / "a\0b"
    else:
        return folder / ("n" * 300)
    return path


@pytest.mark.parametrize("kind", PLACES)
def test_a_place_that_takes_no_report(kind: str, tmp_path: Path) -> None:
    path = place(kind, tmp_path)
    with pytest.raises(ConfigurationError, match="cannot be written") as refused:
        write_text(path, "text")
    assert PLACES[kind] in str(refused.value)
    if kind not in ("a pipe that nobody reads", "no more bytes"):  # which only writing tells
        with pytest.raises(ConfigurationError, match="cannot be written"):
            ensure_writable(path)


def test_a_place_that_takes_one_is_left_as_it_was(tmp_path: Path) -> None:
    new, old = tmp_path / "a" / "new", tmp_path / "old"
    old.write_text("as it was")
    for path in (new, old):
        ensure_writable(path)
    assert not new.exists()
    assert old.read_text() == "as it was"
    write_text(old, "new")
    assert old.read_text() == "new"


def test_a_pipe_with_a_reader_gets_all_of_it(tmp_path: Path) -> None:
    """More than a pipe holds, to one who reads late: what `--html >(less)` is."""
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    descriptor = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(descriptor, True)

    def drain() -> None:
        with os.fdopen(descriptor, "rb") as file:
            read.append(len(file.read()))

    reader = threading.Timer(0.5, drain)
    reader.start()
    ensure_writable(pipe)
    write_text(pipe, "x" * (1 << 20))
    reader.join()
    assert read == [1 << 20]


def test_names_that_are_no_unicode_are_written_out(tmp_path: Path) -> None:
    write_text(tmp_path / "report", "red\udcff")
    assert (tmp_path / "report").read_text() == "red\\udcff"


@pytest.mark.parametrize("option", ["--html", "--sarif"])
def test_the_command_ends_where_nobody_reads(option: str, command, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    host = tmp_path / "host" / "sglang" / "srt"
    host.mkdir(parents=True)
    for folder in (host.parent, host):
        (folder / "__init__.py").touch()
    command.platform("mine", 'return "mine_cls:Platform"')
    done: subprocess.CompletedProcess[str] = command(
        "check",
        "mine-dist",
        "--source-only",
        "--host",
        str(tmp_path / "host"),
        option,
        str(tmp_path / "pipe"),
    )
    assert done.returncode == 2, done.stderr
    assert "it is a pipe that nobody reads" in done.stderr
