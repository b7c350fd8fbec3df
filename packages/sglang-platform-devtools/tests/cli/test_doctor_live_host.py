"""A platform on SGLang's own class is examined in a running host; one that does not start is a finding."""

from __future__ import annotations

import pytest

PLATFORMS = """
import enum
class PlatformEnum(enum.Enum):
    OOT = 2
class Own:
    _enum = PlatformEnum.OOT
    device_name = "own"
    device_type = "cpu"
_current_platform = None
def __getattr__(name):
    if name != "current_platform":
        raise AttributeError(name)
    from here_cls import Platform
    globals()[name] = Platform()
    return globals()[name]
"""
PLUGINS = "PLATFORM_PLUGINS_GROUP = 'sglang.srt.platforms'\ndef load_plugins(): {load}\n"
PLATFORM = (
    "from sglang.srt.platforms import Own\nfrom sglang.srt.platforms.interface import SRTPlatform\n"
    "class Platform(Own, SRTPlatform): device_name = 'mine'\n"
)


@pytest.fixture
def findings(command):
    """What `doctor` finds of the host, where its `load_plugins()` does `load`."""

    def found(load: str, status: int) -> dict[str, dict]:
        files = {
            "__init__": "",
            "srt/__init__": "",
            "srt/platforms/__init__": PLATFORMS,
            "srt/platforms/interface": "class SRTPlatform: ...\n",
            "srt/plugins": PLUGINS.format(load=load),
        }
        for name, source in files.items():
            path = command.folder / "sglang" / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source)
        command.platform("here", "return 'here_cls:Platform'")
        (command.folder / "here_cls.py").write_text(PLATFORM)
        findings = command.json("doctor", status=status)["findings"]
        return {one["id"]: one for one in findings if one["id"].startswith("host-")}

    return found


def test_a_refused_launch_keeps_no_class_from_being_examined(findings) -> None:
    load = "from sglang_platform.core.errors import LaunchRefused; raise LaunchRefused('no', why='because', fix='do')"
    assert "host-failed" not in findings(load, 0)


@pytest.mark.sample(2)
@pytest.mark.parametrize("load", ["raise SystemExit(3)", "import os; os._exit(7)"])
def test_a_host_that_cannot_be_started(findings, load: str) -> None:
    finding = findings(load, 1)["host-failed"]
    assert finding["severity"] == "problem"
    assert "SystemExit" in finding["why"] or "status 7" in finding["why"]
