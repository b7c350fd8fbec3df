"""`@platform_plugin`: one `activate()` for core and for the host."""

from __future__ import annotations

import os
import sys

import pytest

from sglang_platform.core.discovery import current
from sglang_platform.core.discovery.entry import platform_plugin
from sglang_platform.core.discovery.process import host_attribute

DECORATED = """
from sglang_platform.core.discovery.entry import platform_plugin
from sglang_platform.core.errors import PlatformUnavailable
calls = []
@platform_plugin
def activate():
    "Probe."
    calls.append(1)
    {body}
"""


def test_outside_a_host_it_is_the_plain_function(monkeypatch) -> None:
    monkeypatch.delitem(sys.modules, "sglang.srt.platforms", raising=False)

    def activate() -> str | None:
        """Probe."""
        return "pkg:Class"

    decorated = platform_plugin(activate)
    assert decorated() == "pkg:Class"
    assert decorated.__wrapped__ is activate  # type: ignore[attr-defined]
    assert (decorated.__name__, decorated.__doc__) == ("activate", "Probe.")


def test_core_asks_the_plain_function_once(site) -> None:
    site.platform("dev")
    site.module("dev_plugin", DECORATED.format(body="return 'dev_plugin_cls:Platform'"))
    assert current.current_platform.device_name == "dev"
    assert sys.modules["dev_plugin"].calls == [1]


@pytest.mark.parametrize(
    ("name", "attribute"),
    [("cuda", "cuda"), ("my-device.v2", "my_device_v2"), ("3dfx", "_3dfx"), ("a b", "a_b")],
)
def test_the_hosts_attribute_is_an_identifier(name, attribute) -> None:
    assert host_attribute(name) == attribute
    assert attribute.isidentifier()


@pytest.mark.long
@pytest.mark.host
def test_in_a_host_every_answer_follows_core_s_rules(site, monkeypatch, run_program) -> None:
    site.module("reexport", "from my_dev_impl import activate\n")
    site.module("my_dev_impl", DECORATED.format(body="return 'my_dev_cls:Platform'"))
    site.module(
        "my_dev_cls",
        "from sglang_platform.core.contract.srt import SRTPlatform\nclass Platform(SRTPlatform):\n"
        "    device_name = 'mine'\n",
    )
    groups = {
        "sglang.srt.platforms": {"my-dev": "reexport:activate"},
        "sglang_platform.contract": {"my-dev": "v1"},
    }
    site.distribution("my-dev-dist", groups)
    site.module(
        "native_plugin", "def activate():\n    return 'native_cls:Platform' if on else None\non = False\n"
    )
    site.module(
        "native_cls",
        "from sglang.srt.platforms.interface import SRTPlatform\n"
        "class Platform(SRTPlatform):\n    device_name = 'native'\n    def __init__(self): self.mark = object()\n",
    )
    site.distribution("native-dist", {"sglang.srt.platforms": {"native": "native_plugin:activate"}})
    # The plugins of `site` are the only ones that say anything.
    for name in [name for name in os.environ if name.startswith("SGLANG_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTHONPATH", str(site.folder))
    run_program("answer_in_a_host.py", timeout=120)
