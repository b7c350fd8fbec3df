"""`host` and `upgrade` on releases and plugins that cannot be read whole: what was not looked at is said, soon; and a
distribution whose metadata is garbage costs a line."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "programs" / "limited_command.py"
OP_CLASS = (
    "class BaseFusedOp:\n    def forward(self):\n        pass\n\n\nclass Silu(BaseFusedOp):\n    pass\n"
)
SECONDS = 40


def limited(*arguments: str, status: int) -> str:
    """What the command says, in 1 GiB of memory and in time."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "1024", *arguments],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == status, done.stdout + done.stderr
    return " ".join((done.stdout + done.stderr).split())


def release(folder: Path, ops: str | bytes = OP_CLASS, more: str | bytes = "") -> Path:
    """A wheel of SGLang 0.5.23 whose op class is in a module of this text."""
    folder.mkdir()
    path = folder / "sglang-0.5.23-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in ("sglang", "sglang/kernels", "sglang/srt"):
            archive.writestr(f"{package}/__init__.py", "")
        archive.writestr("sglang/kernels/fused_op.py", ops)
        archive.writestr("sglang/srt/more.py", more)
        archive.writestr("sglang-0.5.23.dist-info/METADATA", "Name: sglang\nVersion: 0.5.23\n")
    return path


UNREAD: dict[str, tuple[str | bytes, str]] = {
    "100 MB": (b"#" * (100 << 20), "larger than 4 MiB"),
    "nested without end": (OP_CLASS + "x = " + "(" * 5000, "cannot be parsed"),
    "UTF-16": (OP_CLASS.encode("utf-16"), "cannot be parsed"),
    "thousands of branches": (
        OP_CLASS + "if x:\n    pass\n" + "elif x:\n    pass\n" * 3000,
        "cannot be parsed",
    ),
}


@pytest.mark.parametrize("kind", UNREAD)
def test_ops_of_a_release_without_its_op_class(kind: str, tmp_path: Path) -> None:
    text, why = UNREAD[kind]
    said = limited("host", "ops", "--host", str(release(tmp_path / "host", text)), status=2)
    assert "has no class sglang.kernels.fused_op:BaseFusedOp" in said
    assert why in said


def test_ops_beside_a_module_that_cannot_be_read(tmp_path: Path) -> None:
    host = release(tmp_path / "host", more=b"#" * (5 << 20))
    said = limited("host", "ops", "--host", str(host), status=3)
    assert "1 fused ops" in said
    assert "not looked at: sglang.srt.more cannot be read: it is larger than 4 MiB" in said


def test_ops_in_a_line_of_thousands(tmp_path: Path) -> None:
    line = "".join(f"class Op{n + 1}(Op{n}): pass\n" for n in range(3000))
    host = release(tmp_path / "host", OP_CLASS + "class Op0(BaseFusedOp): pass\n" + line)
    assert "3002 fused ops" in limited("host", "ops", "--host", str(host), status=0)


def test_assumptions_of_a_module_that_cannot_be_read(tmp_path: Path) -> None:
    host = release(tmp_path / "host", more=b"torch.cuda\n" * (1 << 20))
    said = limited("host", "assumptions", "--no-download", "--host", str(host), status=0)
    assert "not looked at: sglang.srt.more cannot be read: it is larger than 4 MiB" in said


@pytest.mark.parametrize("kind", UNREAD)
def test_an_upgrade_to_a_module_that_cannot_be_read(kind: str, tmp_path: Path) -> None:
    """The name may be gone, or mean another thing: nothing is said to be unchanged without a word."""
    text, why = UNREAD[kind]
    old, new = release(tmp_path / "old"), release(tmp_path / "new", text)
    plugin = tmp_path / "plugin"
    plugin.mkdir()
    (plugin / "p.py").write_text("from sglang.kernels.fused_op import Silu\n")
    said = limited("upgrade", str(plugin), "--no-download", "--from", str(old), "--to", str(new), status=3)
    assert "not looked at: sglang 0.5.23: sglang.kernels.fused_op " in said
    assert why in said


def test_an_upgrade_of_a_plugin_that_cannot_be_read(tmp_path: Path) -> None:
    host = str(release(tmp_path / "host"))
    plugin = release(tmp_path / "plugin", b"#" * (5 << 20))
    said = limited("upgrade", str(plugin), "--no-download", "--from", host, "--to", host, status=3)
    assert "sglang.kernels.fused_op cannot be read: it is larger than 4 MiB" in said


@pytest.mark.parametrize("command", ["ops", "assumptions", "upgrade"])
@pytest.mark.parametrize("kind", ["too long", "a link to itself", "a pipe", "a device", "no UTF-8"])
def test_a_release_that_is_none(kind: str, command: str, tmp_path: Path) -> None:
    path, why = tmp_path / "sglang-0.5.23.whl", "it is no plain file"
    if kind == "too long":
        path, why = tmp_path / ("x" * 5000), "File name too long"
    elif kind == "a link to itself":
        path.symlink_to(path)
        why = "symbolic links"
    elif kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a device":
        path.symlink_to("/dev/zero")
    else:
        path, why = tmp_path / os.fsdecode(b"\xff\xfe"), "there is no such file"
    if command == "upgrade":
        host = str(release(tmp_path / "host"))
        plugin = tmp_path / "p.py"
        plugin.touch()
        said = limited("upgrade", str(plugin), "--no-download", "--from", host, "--to", str(path), status=2)
    else:
        more = ["--no-download"] if command == "assumptions" else []
        said = limited("host", command, *more, "--host", str(path), status=2)
    assert why in said


METADATA: dict[str, bytes | str] = {
    "not UTF-8": b"Name: mine-dist\nVersion: 1.0\nRequires-Dist: \xff ((\n",
    "UTF-16": "Name: mine-dist\nVersion: 1.0\n".encode("utf-16"),
    "a link to itself": "loop",
    "a pipe": "pipe",
    "a device": "/dev/zero",
    "without end": b"Name: mine-dist\nVersion: 1.0\n" + b"X-Y: z\n" * (2 << 20),
}


@pytest.mark.sample(6)
@pytest.mark.parametrize("kind", METADATA)
def test_metadata_of_an_installed_plugin_that_cannot_be_read(kind: str, command, tmp_path: Path) -> None:
    command.platform("mine", 'return "mine_cls:Platform"')
    file, content = command.folder / "mine_dist-1.0.dist-info" / "METADATA", METADATA[kind]
    file.unlink()
    if isinstance(content, bytes):
        file.write_bytes(content)
    elif content == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to(file if content == "loop" else content)
    unread = not isinstance(content, bytes) or kind == "without end"
    host = str(release(tmp_path / "host"))
    upgrade = ["upgrade", "mine-dist", "--no-download", "--from", host, "--to", host]
    for arguments, status in ((["doctor", "--source-only"], 1), (upgrade, 2 if unread else 0)):
        done = command(*arguments)
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode == status, (arguments, done.stdout, done.stderr)
        assert not unread or "METADATA cannot be read" in done.stdout or "cannot be read" in done.stderr


@pytest.mark.parametrize(
    "record", [b"/etc/passwd.py,,\n../../up.py,,\n\0.py,,\n\n", b'"open,,\n\xff\xfe.py,,\n', b"x" * 200000]
)
def test_a_record_of_files_that_are_none(record: bytes, command, tmp_path: Path) -> None:
    command.platform("mine", 'return "mine_cls:Platform"')
    info = command.folder / "mine_dist-1.0.dist-info"
    (info / "RECORD").write_bytes(record + b"\nmine_plugin.py,sha256=x,not a number\n")
    host = str(release(tmp_path / "host"))
    done = command("upgrade", "mine-dist", "--no-download", "--from", host, "--to", host)
    assert done.returncode == 0, done.stdout + done.stderr
