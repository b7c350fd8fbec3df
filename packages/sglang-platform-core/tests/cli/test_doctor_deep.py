"""`doctor --deep`: what a running SGLang answers beside the platform, on made-up hosts and on the real one."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

import pytest

PLATFORMS = """
import enum
class PlatformEnum(enum.Enum):
    CUDA = 1
    OOT = 2
class Own:
    _enum = PlatformEnum.{identity}
    device_name = "own"
    device_type = "cpu"
    def is_cuda(self): return self._enum is PlatformEnum.CUDA
    def is_rocm(self): return False
    def is_npu(self): return False
_current_platform = None
current_platform = Own()
"""
PLUGINS = "PLATFORM_PLUGINS_GROUP = 'sglang.srt.platforms'\ndef load_plugins(): {load}\n"
INTERFACE = "class SRTPlatform: ...\n"
UTILS = """
print("chatter")
def is_cuda(): return {cuda}
def is_hip(): return False
def is_npu(): {npu}
def is_hpu(): return False
def is_something_else(): return True
def is_pin_memory_available(device=None): return True
is_cpu_count = 3
"""


@pytest.fixture
def host(command):
    """Installs a host that can be imported."""

    def install(identity="OOT", cuda="False", npu="return False", load="pass") -> None:
        files = {
            "__init__": "",
            "srt/__init__": "",
            "srt/platforms/__init__": PLATFORMS.format(identity=identity),
            "srt/platforms/interface": INTERFACE,
            "srt/plugins": PLUGINS.format(load=load),
            "srt/utils": UTILS.format(cuda=cuda, npu=npu),
        }
        for name, source in files.items():
            path = command.folder / "sglang" / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source)

    return install


def deep(command, status: int = 0, **environment: str) -> dict[str, dict]:
    document = command.json("doctor", "--deep", status=status, **environment)
    found = {f["id"]: f for f in document["findings"] if f["id"].startswith("host-")}
    return {**found, "answers": document["host"]}


def test_a_host_that_agrees(command, host) -> None:
    host()
    found = deep(command)
    assert set(found) == {"host-platform-same", "host-helpers", "answers"}
    said = found["host-helpers"]["what"]
    assert "own (OOT, sglang.srt.platforms.Own)" in said
    assert said.endswith("is_cuda False, is_hip False, is_hpu False, is_npu False")
    rows = {row["helper"]: row for row in found["answers"]["helpers"]}
    assert rows["is_hip"] == {"helper": "is_hip", "answer": False, "platform": False, "error": None}


@pytest.mark.parametrize(
    ("identity", "cuda", "words"),
    [
        ("OOT", "True", ["is_cuda() answers True", "OOT", "takes this process for that device"]),
        ("CUDA", "False", ["is_cuda() answers False", "CUDA", "does not take it for what it is"]),
    ],
)
def test_a_helper_that_contradicts_the_platform_is_a_warning(command, host, identity, cuda, words) -> None:
    host(identity=identity, cuda=cuda)
    finding = deep(command)["host-helper-mismatch"]
    assert finding["severity"] == "warning"
    text = " ".join(map(str, finding.values()))
    assert [word for word in words if word not in text] == [], text
    assert f"sglang.srt.utils.common:is_cuda by a hook that answers {cuda == 'False'}" in finding["fix"]


def test_a_helper_that_raises_is_a_warning(command, host) -> None:
    host(npu="raise RuntimeError('torch_npu detected')")
    finding = deep(command)["host-helper-failed"]
    assert finding["severity"] == "warning"
    assert "RuntimeError: torch_npu detected" in finding["why"]


def test_a_host_that_ended_on_another_platform(command, host) -> None:
    """Here the host never asks the plugins; our rules call for one."""
    host()
    command.platform("here", "return 'here_cls:Platform'")
    (command.folder / "here_cls.py").write_text(
        "from sglang.srt.platforms import Own\nfrom sglang.srt.platforms.interface import SRTPlatform\n"
        "class Platform(Own, SRTPlatform): device_name = 'mine'\n"
    )
    finding = deep(command, 1)["host-platform-differs"]
    assert finding["severity"] == "problem"
    assert "SGLang ended on own" in finding["what"]
    assert "the installed plugins call for here_cls.Platform" in finding["what"]
    assert finding["plugin"]["distribution"] == "here-dist"
    assert finding["fix"]


def test_a_launch_that_core_refuses(command, host) -> None:
    host(
        load="from sglang_platform.core.errors import LaunchRefused; "
        "raise LaunchRefused('no', why='because', fix='do')"
    )
    finding = deep(command, 1)["host-refused"]
    assert (finding["what"], finding["why"], finding["fix"]) == ("no", "because", "do")


@pytest.mark.parametrize("load", ["raise SystemExit(3)", "import os; os._exit(7)"])
def test_a_host_that_cannot_be_started(command, host, load) -> None:
    host(load=load)
    finding = deep(command, 1)["host-failed"]
    assert finding["severity"] == "problem"
    assert "SystemExit" in finding["why"] or "status 7" in finding["why"]


def test_without_a_host(command) -> None:
    found = deep(command)
    assert found["host-not-installed"]["severity"] == "note"
    assert found["answers"] is None


def test_it_says_that_it_is_slow(command) -> None:
    run = command("doctor", "--deep")
    assert "importing SGLang" in run.stderr
    assert "importing" not in run.stdout


@pytest.mark.host
@pytest.mark.skipif(importlib.util.find_spec("sglang") is None, reason="SGLang is not installed")
def test_the_example_platform_in_the_real_host() -> None:
    code = "from sglang_platform.core.cli import main; main()"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SGLANG_")}
    run = subprocess.run(
        [sys.executable, "-c", code, "doctor", "--deep", "--json"],
        env={**clean, "SGLANG_PLATFORM": "example_oot"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    document = json.loads(run.stdout)
    found = {finding["id"]: finding for finding in document["findings"]}
    assert "host-platform-same" in found, run.stderr[-2000:]
    assert "example_oot (OOT" in found["host-helpers"]["what"]
    helpers = {row["helper"] for row in document["host"]["helpers"]}
    assert {"is_cuda", "is_hip", "is_cpu", "is_npu", "is_xpu", "is_musa", "is_hpu"} <= helpers
