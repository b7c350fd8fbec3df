"""SGLang is installed and its own METADATA is damaged: commands that read its sources say what they can, and end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

TARGET = "sglang.srt.good:Thing.run"
GOOD = "class Thing:\n    def run(self):\n        pass\n\n\ndef main():\n    Thing().run()\n"
DAMAGE: dict[str, bytes | str | None] = {
    "none": None,
    "empty": b"",
    "zeroes": b"\0" * 100,
    "no version": b"Metadata-Version: 2.1\nName: sglang\n",
    "not UTF-8": b"Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.23\nAuthor: \xff\xfe\n",
    "UTF-16": "Name: sglang\nVersion: 0.5.23\n".encode("utf-16"),
    "larger than any": b"Name: sglang\nVersion: 0.5.23\n" + b"a" * (60 << 20),
    "a pipe": "pipe",
    "a directory": "directory",
    "a link to itself": "loop",
    "a device without an end": "/dev/zero",
}
COMMANDS = [
    ["hooks", "check", TARGET],
    ["upgrade", "mine-dist", "--from", "installed", "--no-download"],
    ["check", "mine-dist", "--source-only", "--no-download", "--sarif", "found.sarif"],
    ["doctor", "--source-only"],
    ["host", "ops"],
]


def damage(file: Path, content: bytes | str | None) -> None:
    if isinstance(content, bytes):
        file.write_bytes(content)
    elif content == "pipe":
        os.mkfifo(file)
    elif content == "directory":
        file.mkdir()
    elif content == "loop":
        file.symlink_to(file)
    elif content is not None:
        file.symlink_to(content)


@pytest.mark.sample(11)
@pytest.mark.parametrize("kind", DAMAGE)
def test_the_metadata_of_sglang_itself(
    kind: str, command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command.platform("mine", 'return "mine_cls:Platform"')
    package = command.folder / "sglang" / "srt"
    package.mkdir(parents=True)
    for file in (package.parent / "__init__.py", package / "__init__.py"):
        file.touch()
    (package / "good.py").write_text(GOOD)
    info = command.folder / "sglang-0.5.23.dist-info"
    info.mkdir()
    damage(info / "METADATA", DAMAGE[kind])
    for arguments in COMMANDS:
        done = command(*arguments)
        told = done.stdout + done.stderr
        assert "Traceback" not in told
        assert "could not finish" not in told, told
        assert done.returncode == (2 if arguments[0] == "host" else 3 if arguments[0] == "check" else 0), told
    assert "exists" in command(*COMMANDS[0]).stdout
    assert "has no class sglang.kernels.fused_op:BaseFusedOp" in command("host", "ops").stderr
