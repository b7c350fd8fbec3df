"""`get_platform(device)`: one platform for each kind of device that the process sees."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest
import torch

from sglang_platform.core import current_platform, get_platform
from sglang_platform.core.contract.srt import SRTPlatform
from sglang_platform.core.errors import ConfigurationError, PluginNotFound, SeveralPlatforms


def platform(site, name: str, device_type: str, activate: str | None = None) -> None:
    site.platform(name, activate or f'return "{name}_device:Device"')
    site.module(
        f"{name}_device",
        f"""
        from sglang_platform.core.contract.srt import SRTPlatform
        class Device(SRTPlatform):
            device_name = {name!r}
            def __init__(self):
                self.device_type = {device_type!r}
        """,
    )


def test_each_kind_has_its_platform_and_keeps_it(site, monkeypatch) -> None:
    platform(site, "first", "first_device")
    platform(site, "second", "second_device")
    monkeypatch.setenv("SGLANG_PLATFORM", "first")
    assert get_platform("first_device:3") is current_platform
    second = get_platform("second_device")
    assert (second.device_name, second.device_type) == ("second", "second_device")
    assert get_platform("second_device:1") is second
    assert isinstance(second, SRTPlatform)
    assert current_platform.device_name == "first"
    cpu = get_platform(torch.device("cpu"))
    assert type(cpu) is SRTPlatform
    assert get_platform("cpu:0") is cpu


def test_threads_get_one_object(site, monkeypatch) -> None:
    platform(site, "first", "first_device")
    platform(site, "second", "second_device")
    monkeypatch.setenv("SGLANG_PLATFORM", "first")
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(get_platform("second_device"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(map(id, found))) == 1


def test_where_none_or_two_serve_a_device_it_is_told_why(site, monkeypatch) -> None:
    platform(site, "first", "first_device")
    platform(site, "away", "away_device", "return None")
    platform(site, "broken", "broken_device", "raise RuntimeError('no driver')")
    monkeypatch.setenv("SGLANG_PLATFORM", "first")
    with pytest.raises(PluginNotFound) as caught:
        get_platform("away_device")
    for words in ("'away_device'", "not on this machine", "failed in activate()", "serves 'first_device'"):
        assert words in str(caught.value)
    platform(site, "one", "same")
    platform(site, "two", "same")
    from sglang_platform.core.discovery import scan

    scan.invalidate()
    with pytest.raises(SeveralPlatforms, match="2 platforms serve the device 'same'"):
        get_platform("same")


@pytest.mark.parametrize(
    "device", ["", " cpu ", "first_device:", "first_device:x", "first_device:-1", ":0", None, 3]
)
def test_what_is_no_device_is_told(device: Any, site, monkeypatch) -> None:
    platform(site, "first", "first_device")
    monkeypatch.setenv("SGLANG_PLATFORM", "first")
    with pytest.raises(ConfigurationError, match=f"{re.escape(repr(device))} is no device"):
        get_platform(device)


def test_a_plugin_that_is_there_and_declines_is_not_to_be_installed_again(site, monkeypatch) -> None:
    platform(site, "first", "first_device")
    platform(site, "away", "away_device", "return None")
    monkeypatch.setenv("SGLANG_PLATFORM", "first")
    with pytest.raises(PluginNotFound, match=r"fix: +mend what keeps one away, or install the plugin for"):
        get_platform("away_device")
