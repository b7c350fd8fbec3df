"""Shows that in a host every answer follows core's rules. One process, since importing SGLang takes seconds."""

# ruff: noqa: E402 -- each import stands where the check first needs it

import os

import pytest
import sglang.srt.platforms as host
from sglang.srt.platforms.interface import SRTPlatform as HostPlatform

from sglang_platform.core.discovery import current
from sglang_platform.core.discovery.current import current_platform as ours
from sglang_platform.core.discovery.kind import SRT
from sglang_platform.core.errors import LaunchRefused
from sglang_platform.core.sglang.start.platform_class import rebased_class


def again(**environment):
    host._current_platform = None
    current.reset()
    for name in [n for n in os.environ if n.startswith("SGLANG_")]:
        del os.environ[name]
    os.environ.update(environment)


# The host asks first: our answer is the re-based class, the object is ours, activate ran once.
theirs = host.current_platform
assert theirs is ours, theirs
assert theirs.device_name == "mine", theirs
assert isinstance(ours, HostPlatform)
import my_dev_impl

assert my_dev_impl.calls == [1]
assert my_dev_impl.activate() == "sglang_platform.core.sglang.start.activated:my_dev"
with pytest.raises(AttributeError, match="other_dev"):
    rebased_class(SRT, "other_dev")

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
assert host.current_platform.device_name == "native"
assert isinstance(ours, HostPlatform)

# Two active platforms: the host would log the refusal of a plugin and go on; it cannot swallow this one.
again()
with pytest.raises(LaunchRefused, match="2 platforms are active"):
    _ = host.current_platform

# None active: the host's own platform is ours too, whoever is touched first.
native_plugin.on = False
my_dev_impl.activate.__wrapped__.__code__ = (lambda: None).__code__
again()
assert isinstance(ours, HostPlatform)
assert type(ours.__class__) is type
assert current.decision().origin is None
assert current.is_current_platform(host.current_platform)

# The host chose otherwise than the rules say: refused, with both.
native_plugin.on = True
again()
host._current_platform = HostPlatform()
with pytest.raises(Exception, match=r"call for native_cls\.Platform"):
    _ = current.decide(), ours.device_name
