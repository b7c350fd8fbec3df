"""`generate` over damage: one message that says what, why and what to do, before an engine is started, and no hang."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from sglang_platform.conformance.guard import descendants
from sglang_platform.conformance.host.before_start import (
    refuse_damaged_checkpoint,
    refuse_odd_prompts,
    refuse_unreadable_metadata,
)
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.generate import _show_decision
from sglang_platform.core.errors import ConfigurationError

pytestmark = [pytest.mark.host, pytest.mark.timeout(1200)]


@pytest.fixture
def checkpoint(models: Path, tmp_path: Path) -> Path:
    return shutil.copytree(make_checkpoint(models / "llama"), tmp_path / "checkpoint")


def with_settings(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def cut_short(file: Path, by: int) -> None:
    os.truncate(file, file.stat().st_size - by)


def wrong_header(file: Path) -> None:
    with file.open("r+b") as weights:
        weights.write((1 << 40).to_bytes(8, "little"))


def unindexed(folder: Path) -> None:
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "part-2.safetensors"}}')


DAMAGE = {
    "an empty folder": (lambda f: [one.unlink() for one in f.iterdir()], "it has no config.json"),
    "no folder": (lambda f: shutil.rmtree(f), "it has no config.json"),
    "a file": (lambda f: [shutil.rmtree(f), f.touch()], "it has no config.json"),
    "config not JSON": (lambda f: (f / "config.json").write_text("{"), "config.json"),
    "config not UTF-8": (lambda f: (f / "config.json").write_bytes(b'{"a": "\xff"}'), "utf-8"),
    "config too deep": (lambda f: (f / "config.json").write_text("[" * 100_000), "config.json"),
    "config a pipe": (
        lambda f: [(f / "config.json").unlink(), os.mkfifo(f / "config.json")],
        "no plain file",
    ),
    "config a loop": (
        lambda f: [(f / "config.json").unlink(), (f / "config.json").symlink_to("config.json")],
        "symbolic links",
    ),
    "config without a model": (lambda f: (f / "config.json").write_text("{}"), "model_type"),
    "a negative number": (lambda f: with_settings(f, num_hidden_layers=-4), "num_hidden_layers is -4"),
    "a number that is none": (lambda f: with_settings(f, hidden_size="a lot"), "hidden_size is a lot"),
    "a huge number": (lambda f: with_settings(f, vocab_size=10**12), "vocab_size is 1000000000000"),
    "a huge number of layers": (lambda f: with_settings(f, num_hidden_layers=10**400), "num_hidden_layers"),
    "tokenizer not JSON": (lambda f: cut_short(f / "tokenizer.json", 100), "tokenizer.json"),
    "a tokenizer that is none": (lambda f: (f / "tokenizer.json").write_text("{}"), "tokenizer.json"),
    "tokenizer settings": (
        lambda f: (f / "tokenizer_config.json").write_text("[]"),
        "tokenizer_config.json",
    ),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "no weights"),
    "weights cut short": (lambda f: cut_short(f / "model.safetensors", 1000), "model.safetensors"),
    "weights empty": (lambda f: (f / "model.safetensors").write_bytes(b""), "model.safetensors"),
    "a wrong header": (lambda f: wrong_header(f / "model.safetensors"), "model.safetensors"),
    "weights a pipe": (
        lambda f: [(f / "model.safetensors").unlink(), os.mkfifo(f / "model.safetensors")],
        "no plain file",
    ),
    "a part that is not there": (unindexed, "part-2.safetensors"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_checkpoint_is_refused(kind: str, checkpoint: Path) -> None:
    damage, told = DAMAGE[kind]
    damage(checkpoint)
    with pytest.raises(ConfigurationError) as refused:
        refuse_damaged_checkpoint(checkpoint, "give another")
    assert told in str(refused.value)
    assert str(checkpoint) in str(refused.value)
    assert "fix:    give another" in str(refused.value)


def test_whole_checkpoints_are_taken(models: Path) -> None:
    for name in ("llama", "qwen3_moe", "deepseek_v3"):
        refuse_damaged_checkpoint(make_checkpoint(models / name, name), "")


def test_a_checkpoint_whose_making_found_no_room_is_made_anew(models: Path, checkpoint: Path) -> None:
    (checkpoint / "complete.json").write_text("")
    refuse_damaged_checkpoint(make_checkpoint(checkpoint), "")
    assert (checkpoint / "complete.json").read_text()


@pytest.mark.parametrize("prompt", ["\udcff", "a" * 1000 + "\ud800", ""])
def test_a_prompt_that_no_tokenizer_takes(prompt: str) -> None:
    with pytest.raises(ConfigurationError, match="prompt"):
        refuse_odd_prompts(["right", prompt])
    refuse_odd_prompts(["right", "a\nb", "\0", "été ✓"])


def entry_points(kind: str, folder: Path) -> Path:
    info = folder / "third-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: third\nVersion: 1.0\n")
    file = info / "entry_points.txt"
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "loop":
        file.symlink_to(file)
    elif kind == "not UTF-8":
        file.write_bytes(b"[a]\nx = \xff\xfe:a\n")
    elif kind == "huge":
        file.write_text("[a]\n" + "x = y:z\n" * (1 << 20))
    elif kind == "dangling":
        file.symlink_to("nowhere")
    else:
        file.symlink_to(kind)
    return file


UNREADABLE = ["pipe", "loop", "not UTF-8", "huge", "/dev/zero"]


@pytest.mark.parametrize("kind", UNREADABLE)
def test_entry_points_that_torch_could_not_read(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_unreadable_metadata()
    file = entry_points(kind, tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigurationError) as refused:
        refuse_unreadable_metadata()
    assert f"{file} cannot be read" in str(refused.value)
    assert "fix:    install third again" in str(refused.value)


def test_entry_points_that_lead_nowhere_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry_points("dangling", tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    refuse_unreadable_metadata()


@pytest.mark.parametrize("content", [b"", b"\0\0\0", b"Name: sglang\nVersion: 0.5.23\nAuthor: \xff\n", None])
def test_sglangs_own_metadata(content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "sglang-0.5.23.dist-info" / "METADATA"
    file.parent.mkdir()
    os.mkfifo(file) if content is None else file.write_bytes(content)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigurationError, match="install sglang again"):
        refuse_unreadable_metadata()


def test_an_engine_without_our_hooks_is_told() -> None:
    with pytest.raises(ConfigurationError, match="not in force"):
        _show_decision([])


def generate(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "250", **more.pop("env", {})}
    command = [sys.executable, "-m", "sglang_platform.conformance.host.generate", *arguments]
    return subprocess.run(
        command, env=environment, stderr=subprocess.PIPE, text=True, errors="replace", timeout=100, **more
    )


def one_message(done: subprocess.CompletedProcess[str], *parts: str, status: int = 1) -> None:
    told = (done.stdout or "") + done.stderr
    assert done.returncode == status, told
    assert [part for part in parts if part not in told] == []
    assert "Traceback" not in told
    assert "starting SGLang" not in told


@pytest.mark.long
def test_the_command_says_it_in_one_message(tmp_path: Path, models: Path) -> None:
    def told(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
        return generate(*arguments, stdout=subprocess.PIPE, **more)

    entry_points("pipe", tmp_path / "site")
    one_message(
        told("--models", str(models), env={"PYTHONPATH": str(tmp_path / "site")}),
        "third-1.0.dist-info/entry_points.txt cannot be read", "why:", "fix:",
    )  # fmt: skip
    one_message(told("--model-path", str(tmp_path)), "no config.json", "fix:    give --model-path")
    (tmp_path / "file").touch()
    one_message(
        told("--architecture", "llama", "--models", str(tmp_path / "file")),
        "cannot be made in",
        "fix:",
        "--models",
    )
    one_message(told("--prompt", "\udcff"), "is no text", "fix:")
    one_message(told("--dtype", "float7"), "unknown dtype 'float7'", status=2)
    with open("/dev/full", "w") as full:  # noqa: PTH123
        one_message(
            generate("--model-path", str(make_checkpoint(models / "llama")), stdout=full),
            "the output cannot be written: No space left on device",
        )


def shared_by(pids: Iterable[int]) -> set[int]:
    """The inodes of the shared memory and the semaphores that these processes have mapped, but the one file that SGLang
    leaves at every end."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
            shared = [line for line in lines if "/dev/shm/" in line and "/sglang_loads_" not in line]
            found |= {int(line.split()[4]) for line in shared}
    return found


@pytest.mark.engine
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_a_signal_while_sglang_starts_leaves_nothing(number: signal.Signals, models: Path) -> None:
    command = [sys.executable, "-m", "sglang_platform.conformance.host.generate", "--models", str(models)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        started: dict[int, str] = {}
        held: set[int] = set()
        until = time.monotonic() + 120
        # The worker, its tracker, a scheduler, a detokenizer, and a semaphore of theirs.
        while (len(started) < 4 or not held) and time.monotonic() < until:
            time.sleep(0.1)
            started = descendants(process.pid)
            held |= shared_by(started)
        process.send_signal(number)
        try:
            said, told = process.communicate(timeout=20)
        finally:
            process.kill()
    assert process.returncode == 128 + number, said + told
    assert told.strip() == f"ended by {number.name}; nothing of SGLang runs on"
    assert not [one for one in started if Path(f"/proc/{one}/exe").exists()]
    assert held
    assert not [one for one in Path("/dev/shm").iterdir() if one.stat().st_ino in held]
