"""No command is green about a fault that another refuses: each tells it, or says that it does not look at it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import tomllib

FILES = {
    "src/ven/__init__.py": """
from sglang_platform.core import platform_plugin
@platform_plugin
def activate():
    return "ven.platform:Ven"
""",
    "src/ven/platform.py": """
from sglang_platform.core import SRTPlatform
from ven.device import Device
class Ven(SRTPlatform, Device):
    def initialize_device(self, rank, local_rank): ...
""",
    "src/ven/device.py": """
from sglang_platform.core import DeviceMixin, PlatformEnum
from ven.driver import NAME
class Device(DeviceMixin):
    _enum = PlatformEnum.OOT
    device_name = NAME
    device_type = "cpu"
    def get_device(self, device_id=0): ...
    def get_device_total_memory(self, device_id=0): ...
    def get_current_memory_usage(self, device=None): ...
""",
    "src/ven/driver.py": 'NAME = "ven"\n',
    "pyproject.toml": """
[project]
name = "ven-dist"
version = "1.0"
requires-python = ">=3.10"
dependencies = ["sglang-platform-core"]
[project.entry-points."sglang.srt.platforms"]
ven = "ven:activate"
[project.entry-points."sglang_platform.contract"]
ven = "v1"
""",
}
COMMANDS = ("info", "doctor", "check", "list --explain", "doctor --source-only", "check --source-only")


class Fault(NamedTuple):
    """`old` in `file` becomes `new`; no `new`: the file is deleted. tells: the commands that refuse it."""

    file: str
    old: str
    new: str | None
    tells: tuple[str, ...]


_RUN = ("info", "doctor", "check")
_ASKED = (*_RUN, "list --explain", "doctor --source-only")
FAULTS = {
    "a deleted module": Fault("src/ven/driver.py", "", None, _RUN),
    "a missing name": Fault("src/ven/driver.py", "NAME =", "OTHER =", _RUN),
    "a syntax error": Fault("src/ven/device.py", "class Device(DeviceMixin):", "class Device(DeviceMixin)", _RUN),
    "a missing dependency": Fault("src/ven/device.py", "from ven.driver", "import gone_library\nfrom ven.driver", _RUN),
    "an error of the import": Fault("src/ven/driver.py", "NAME =", "raise OSError('no firmware')\nNAME =", _RUN),
    "an import that ends the process": Fault("src/ven/driver.py", "NAME =", "import os; os._exit(7)\nNAME =", _RUN),
    "a broken contract": Fault("src/ven/device.py", "    device_type", "    get_devise = 1\n    device_type", _RUN),
    "no platform class": Fault("src/ven/platform.py", "(SRTPlatform, Device)", "(Device)", _RUN),
    "a misspelt class": Fault("src/ven/__init__.py", "platform:Ven", "platform:Vem", _RUN),
    "no decorator": Fault("src/ven/__init__.py", "@platform_plugin", "", _RUN),
    "a constructor that raises": Fault(
        "src/ven/platform.py",
        "    def init",
        "    def __init__(self): raise OSError(1)\n    def init",
        ("info", "doctor"),
    ),
    "activate() that raises": Fault("src/ven/__init__.py", "    return", "    1 / 0\n    return", _ASKED),
    "activate() that ends the process": Fault(
        "src/ven/__init__.py", "    return", "    import os; os._exit(7)\n    return", _ASKED
    ),
    "a wrong answer": Fault("src/ven/__init__.py", '"ven.platform:Ven"', "True", _ASKED),
    "an entry point to nothing": Fault("pyproject.toml", "ven:activate", "ven:activat", COMMANDS),
    "a wrong group": Fault(
        "pyproject.toml", "sglang.srt.platforms", "sglang.platforms",
        ("info", "doctor", "check", "doctor --source-only", "check --source-only"),
    ),
    "no contract version": Fault(
        "pyproject.toml", '[project.entry-points."sglang_platform.contract"]\nven = "v1"', "",
        ("check", "check --source-only"),
    ),
    "a wrong contract version": Fault("pyproject.toml", 'ven = "v1"', 'ven = "v9"', _ASKED),
}  # fmt: skip

Run = Callable[[str], tuple[int, str]]


@pytest.fixture
def vendor(command, tmp_path: Path) -> Callable[[Fault | None], Run]:
    """The plugin's folder with a fault, installed beside it; returns what runs a command on it."""

    def plant(fault: Fault | None) -> Run:
        folder = tmp_path / "vendor"
        for name, text in FILES.items():
            if fault is not None and name == fault.file:
                assert fault.old in text
                if fault.new is None:
                    continue
                text = text.replace(fault.old, fault.new)
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
        command.install("ven", project["entry-points"])
        shutil.copytree(folder / "src" / "ven", command.folder / "ven")

        def run(text: str) -> tuple[int, str]:
            name, *options = text.split()
            where = [str(folder), "--host", str(tmp_path / "host")] if name == "check" else []
            done = command(name, *where, *options, SGLANG_PLATFORM="ven")
            return done.returncode, done.stdout + done.stderr

        host = tmp_path / "host" / "sglang"
        host.mkdir(parents=True)
        (host / "__init__.py").write_text('__version__ = "0.5.23"\n')
        return run

    return plant


@pytest.mark.sample(18)
@pytest.mark.parametrize("name", FAULTS)
def test_each_command_tells_it_or_says_what_it_leaves_out(vendor, name: str) -> None:
    run = vendor(FAULTS[name])
    for command in COMMANDS:
        status, said = run(command)
        if command in FAULTS[name].tells:
            assert status == 1, f"{command}: {said}"
        else:
            left_out = any(words in said.lower() for words in ("not looked at", "not made here"))
            assert status == 1 or left_out, f"{command}: {said}"
        assert "Traceback" not in said


def test_the_plugin_as_it_should_be(vendor) -> None:
    run = vendor(None)
    for command in COMMANDS:
        status, said = run(command)
        assert status == (3 if command == "check --source-only" else 0), f"{command}: {said}"
