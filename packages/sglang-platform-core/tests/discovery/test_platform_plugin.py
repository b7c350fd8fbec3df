"""`@platform_plugin`: one `activate()` for core and for the host."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

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


def _in_host(site, code: str, **environment: str) -> str:
    """Run `code` in a process with SGLang, in which the plugins of `site` are the only ones that say anything."""
    prelude = """
        import sys
        import sglang.srt.platforms as host
        from sglang_platform.core.discovery import current
        from sglang_platform.core.discovery.current import current_platform as ours
    """
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SGLANG_")}
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(prelude) + textwrap.dedent(code)],
        env={**clean, "PYTHONPATH": str(site.folder), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return run.stdout


@pytest.mark.host
def test_in_a_host_every_answer_follows_core_s_rules(site) -> None:
    """One process, reset between the cases, since importing SGLang takes seconds."""
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
    _in_host(
        site,
        """
        import os, pytest
        from sglang_platform.core.errors import LaunchRefused
        from sglang.srt.platforms.interface import SRTPlatform as HostPlatform

        def again(**environment):
            host._current_platform = None
            current.reset()
            for name in [n for n in os.environ if n.startswith("SGLANG_")]:
                del os.environ[name]
            os.environ.update(environment)

        # The host asks first: our answer is the re-based class, the object is ours, activate ran once.
        theirs = host.current_platform
        assert theirs is ours and theirs.device_name == "mine", theirs
        assert isinstance(ours, HostPlatform)
        import my_dev_impl
        assert my_dev_impl.calls == [1]
        assert my_dev_impl.activate() == "sglang_platform.core.hosts.sglang.srt.platforms:my_dev"
        with pytest.raises(AttributeError, match="other_dev"):
            current.host_platform_class("other_dev")

        # A plugin written on the host's own classes: one class and one state.
        import native_plugin
        native_plugin.on = True
        again(SGLANG_PLATFORM="native")
        assert host.current_platform.device_name == "native" == ours.device_name
        assert host.current_platform.mark is ours.mark
        assert current.is_current_platform(host.current_platform)
        assert my_dev_impl.activate() is None

        # The same, with our object given to the host before either resolved.
        again(SGLANG_PLATFORM="native")
        host._current_platform = ours
        assert host.current_platform.device_name == "native" and isinstance(ours, HostPlatform)

        # Two active platforms: the host would log the refusal of a plugin and go on; it cannot swallow this one.
        again()
        with pytest.raises(LaunchRefused, match="2 platforms are active"):
            host.current_platform

        # None active: the host's own platform is ours too, whoever is touched first.
        native_plugin.on = False
        my_dev_impl.activate.__wrapped__.__code__ = (lambda: None).__code__
        again()
        assert isinstance(ours, HostPlatform) and type(ours.__class__) is type
        assert current.decision().origin is None and current.is_current_platform(host.current_platform)

        # The host chose otherwise than the rules say: refused, with both.
        native_plugin.on = True
        again()
        host._current_platform = HostPlatform()
        with pytest.raises(Exception, match="call for native_cls.Platform"):
            current.decide(), ours.device_name
        """,
    )
