"""`current_platform` is one lazy object: it resolves on the first touch, once, and is then a plain platform."""

from __future__ import annotations

import pickle
import sys
import threading

import pytest

from sglang_platform.core.contract.srt import SRTPlatform
from sglang_platform.core.discovery import current
from sglang_platform.core.discovery.current import current_platform
from sglang_platform.core.discovery.kind import SRT
from sglang_platform.core.errors import HostError, PluginFailed
from sglang_platform.core.sglang.start.platform_class import rebased_class

STATEFUL = """
import time
from sglang_platform.core.contract.srt import SRTPlatform
built = []
class Platform(SRTPlatform):
    device_name = "stateful"
    def __init__(self):
        built.append(self)
        time.sleep(0.05)
        self._ready = "complete"
    def get_dispatch_key_name(self):
        return self._ready
"""


def _stateful(site) -> None:
    site.platform("dev", "import time; time.sleep(0.02); return 'dev_plugin_cls:Platform'")
    site.module("dev_plugin_cls", STATEFUL)


def test_importing_it_resolves_nothing(site) -> None:
    site.platform("dev", "raise RuntimeError('asked')")
    from sglang_platform.core import current_platform as from_package

    assert from_package is current_platform
    assert repr(current_platform) == "<current_platform: not resolved yet>"
    assert not current.resolved()
    assert current.decision() is None
    assert current.trace() is None


def test_the_first_touch_turns_the_same_object_into_the_platform(site) -> None:
    _stateful(site)
    before = id(current_platform)
    assert current_platform.device_name == "stateful"
    assert current.resolved()
    assert id(current_platform) == before
    assert type(current_platform) is sys.modules["dev_plugin_cls"].Platform
    assert vars(current_platform) == {"_ready": "complete"}
    assert current_platform.get_dispatch_key_name() == "complete"


def test_an_attribute_that_is_missing_is_an_attribute_error(site) -> None:
    site.platform("dev")
    with pytest.raises(AttributeError, match="no_such_attribute"):
        _ = current_platform.no_such_attribute
    assert current.resolved()


@pytest.mark.parametrize(
    ("touch", "expected"),
    [
        (lambda: isinstance(current_platform, SRTPlatform), True),
        (lambda: isinstance(current_platform, int), False),
        (lambda: current_platform.__class__.__name__, "Platform"),
        (lambda: bool(current_platform), True),
        (lambda: current_platform == current_platform, True),
        (lambda: current_platform != 3, True),
        (lambda: hash(current_platform) == hash(current_platform), True),
        (lambda: "device_name" in dir(current_platform), True),
        (lambda: "dev" in f"{current_platform}", True),
        (lambda: "dev" in str(current_platform), True),
        (lambda: hasattr(current_platform, "get_device"), True),
        (lambda: type(pickle.loads(pickle.dumps(current_platform))).__name__, "Platform"),
    ],
)
def test_a_first_touch_of_every_kind(site, touch, expected) -> None:
    site.platform("dev")
    assert touch() == expected
    assert touch() == expected
    assert current_platform.device_name == "dev"


def test_the_hash_and_equality_of_the_platforms_class_hold_from_the_first_touch(site) -> None:
    site.platform("dev")
    source = "    def __hash__(self): return 42\n    def __eq__(self, other): return other == 'dev'\n"
    site.module(
        "dev_plugin_cls",
        f"from sglang_platform.core.contract.srt import SRTPlatform\nclass Platform(SRTPlatform):\n{source}",
    )
    assert hash(current_platform) == 42
    assert current_platform == "dev"


def test_setting_and_deleting_an_attribute_as_the_first_touch(site) -> None:
    site.platform("dev")
    current_platform.device_name = "renamed"
    assert (current_platform.device_name, type(current_platform).device_name) == ("renamed", "dev")
    del current_platform.device_name
    assert current_platform.device_name == "dev"


def test_deleting_what_is_not_there_as_the_first_touch(site) -> None:
    site.platform("dev")
    with pytest.raises(AttributeError):
        del current_platform.device_name
    assert current_platform.device_name == "dev"


def test_one_resolution_under_threads_and_no_half_built_platform(site) -> None:
    _stateful(site)
    start = threading.Barrier(16)
    seen: list[object] = []

    def touch(index: int) -> None:
        start.wait()
        if index % 4 == 0:
            seen.append(
                isinstance(current_platform, SRTPlatform) and current_platform.get_dispatch_key_name()
            )
        elif index % 4 == 1:
            seen.append(bool(current_platform) and current_platform._ready)
        else:
            seen.append(current_platform.get_dispatch_key_name())

    threads = [threading.Thread(target=touch, args=(index,)) for index in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert seen == ["complete"] * 16
    assert len(sys.modules["dev_plugin_cls"].built) == 1


def test_threads_all_get_the_failure(site) -> None:
    site.platform(
        "dev", "import time; time.sleep(0.05); dev_calls.append(1); raise RuntimeError('driver gone')"
    )
    site.module("dev_count", "calls = []")
    source = (site.folder / "dev_plugin.py").read_text()
    (site.folder / "dev_plugin.py").write_text("from dev_count import calls as dev_calls\n" + source)
    messages: list[str] = []

    def touch() -> None:
        try:
            _ = current_platform.device_name
        except PluginFailed as error:
            messages.append(str(error))

    threads = [threading.Thread(target=touch) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(messages) == 8
    assert len(set(messages)) == 1
    assert sys.modules["dev_count"].calls == [1]


def test_a_failure_is_remembered_until_reset(site) -> None:
    site.platform("dev", "raise RuntimeError('driver gone')")
    with pytest.raises(PluginFailed) as first:
        _ = current_platform.device_name
    with pytest.raises(PluginFailed) as second:
        isinstance(current_platform, int)
    assert str(first.value) == str(second.value)
    assert isinstance(second.value.__cause__, RuntimeError)
    assert "refused: platform plugin 'dev' failed in activate()" in repr(current_platform)
    assert not current.resolved()
    site.module("dev_plugin", "def activate(): return None")
    del sys.modules["dev_plugin"]
    current.reset()
    assert current_platform.device_name == "unknown"


def test_reset_gives_the_object_back_to_laziness(site, monkeypatch) -> None:
    _stateful(site)
    assert current_platform._ready == "complete"
    current.reset()
    assert repr(current_platform) == "<current_platform: not resolved yet>"
    site.platform("second")
    monkeypatch.setenv("SGLANG_PLATFORM", "second")
    assert current_platform.device_name == "second"
    assert not hasattr(current_platform, "_ready")


def test_deciding_does_not_import_the_class_before_it_must(site) -> None:
    site.platform("dev")
    assert current.choice().origin.name == "dev"
    assert "dev_plugin_cls" not in sys.modules
    assert current.decide().platform_class is sys.modules["dev_plugin_cls"].Platform
    assert not current.resolved()


# What the host adapter does.


def test_a_host_that_instantiates_first_gets_the_object_itself(site) -> None:
    _stateful(site)
    vendor = current.decide().platform_class
    rebased = type("Rebased", (vendor,), {"_rebased_by_host": True})
    assert current.adopt(rebased) is current_platform
    assert type(current_platform) is rebased
    assert current_platform._ready == "complete"
    assert current.adopt(rebased) is current_platform
    assert len(sys.modules["dev_plugin_cls"].built) == 1


@pytest.mark.parametrize(
    "touch", [lambda: current_platform.device_name, lambda: isinstance(current_platform, int)]
)
def test_a_platform_resolved_before_the_host_changes_class_and_keeps_its_state(site, touch) -> None:
    _stateful(site)
    touch()
    vendor = current.decide().platform_class
    rebased = type("Rebased", (vendor,), {"_rebased_by_host": True})
    assert current.adopt(rebased) is current_platform
    assert type(current_platform) is rebased
    assert current_platform._ready == "complete"
    assert len(sys.modules["dev_plugin_cls"].built) == 1


def test_a_host_that_instantiates_another_class_is_refused(site) -> None:
    _stateful(site)
    with pytest.raises(HostError, match=r"dev_plugin_cls\.Platform") as caught:
        current.adopt(SRTPlatform)
    assert caught.value.plugin.name == "dev"
    assert current_platform.device_name == "stateful"
    with pytest.raises(HostError):
        current.adopt(int)


def test_only_the_object_itself_is_the_current_platform(site) -> None:
    site.platform("dev")
    assert current.is_current_platform(current_platform)
    assert not current.is_current_platform(SRTPlatform())
    assert current_platform.device_name == "dev"
    assert current.is_current_platform(current_platform)
    assert not current.is_current_platform(type(current_platform)())
    current.follow_host()  # no host: nothing to follow
    assert current_platform.device_name == "dev"


def test_the_re_based_class_is_served_in_a_host_only(site) -> None:
    site.platform("dev")
    with pytest.raises(AttributeError, match="'dev' is not the active platform plugin"):
        rebased_class(SRT, "dev")
