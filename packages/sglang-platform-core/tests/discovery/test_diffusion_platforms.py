"""Platforms of the diffusion runtime: their own group, variable, names and object, by the same rules."""

from __future__ import annotations

import pytest

from sglang_platform.core import plugins
from sglang_platform.core.discovery import current
from sglang_platform.core.discovery.current import current_mm_platform
from sglang_platform.core.discovery.current import diffusion_process as process
from sglang_platform.core.discovery.kind import DIFFUSION
from sglang_platform.core.errors import PlatformError, PluginFailed, PluginNotFound, SeveralPlatforms

GROUP, HOOKS = "sglang.multimodal_gen.platforms", "sglang.multimodal_gen.plugins"
VARIABLE = "SGLANG_DIFFUSION_PLATFORM_OVERRIDE"


def _platform(site, name: str, activate: str = "", *, identity: str = "OOT", hooks: str = "") -> None:
    module = f"{name}_mm"
    site.module(
        module,
        "from sglang_platform.core import MMPlatform, PlatformEnum, mm_platform_plugin\n"
        f"class Platform(MMPlatform):\n    _enum = PlatformEnum.{identity}\n    device_name = {name!r}\n"
        "@mm_platform_plugin\n"
        f"def activate():\n    {activate or f'return {module!r} + chr(58) + {chr(34)}Platform{chr(34)}'}\n"
        f"def hooks():\n    {hooks or 'pass'}\n",
    )
    groups = {GROUP: {name: f"{module}:activate"}}
    if hooks:
        groups[HOOKS] = {name: f"{module}:hooks"}
    site.distribution(f"{name}-mm-dist", groups)


def _refused(kind: type[PlatformError], *words: str) -> None:
    with pytest.raises(kind) as caught:
        process.decide()
    message = str(caught.value)
    assert [word for word in words if word not in message] == [], message


def test_each_runtime_has_its_own_platform(site) -> None:
    site.platform("llm")
    _platform(site, "pictures")
    assert current_mm_platform.device_name == "pictures"
    assert current.current_platform.device_name == "llm"
    assert current_mm_platform is not current.current_platform


def test_none_installed_gives_the_base_platform(site) -> None:
    assert repr(current_mm_platform) == "<current_mm_platform: not resolved yet>"
    assert process.decide().origin is None
    assert current_mm_platform.device_name == "unknown"


def test_its_own_variable_names_it(site, monkeypatch) -> None:
    _platform(site, "one")
    _platform(site, "two")
    _refused(SeveralPlatforms, f"set {VARIABLE}=one or {VARIABLE}=two")
    process.reset()
    monkeypatch.setenv("SGLANG_PLATFORM", "one")  # the other runtime's
    _refused(SeveralPlatforms)
    process.reset()
    monkeypatch.setenv(VARIABLE, "two")
    assert current_mm_platform.device_name == "two"


def test_a_misspelled_name_offers_the_nearest(site, monkeypatch) -> None:
    _platform(site, "pictures")
    monkeypatch.setenv(VARIABLE, "picture")
    _refused(PluginNotFound, VARIABLE, "did you mean 'pictures'")


@pytest.mark.parametrize("name", ["cpu", "CUDA"])
def test_the_variable_may_name_a_platform_of_the_hosts_own(site, monkeypatch, name) -> None:
    _platform(site, "pictures", "raise RuntimeError('must not be asked')")
    monkeypatch.setenv(VARIABLE, name)
    decision = process.decide()
    assert decision.origin is None
    assert decision.trace.outcome == f"{VARIABLE} names the host's own platform {name.lower()!r}"


@pytest.mark.parametrize("name", ["npu", "CPU"])
def test_a_plugin_may_not_take_a_name_of_the_hosts_own(site, name) -> None:
    _platform(site, name)
    _refused(PluginFailed, repr(name), "keeps these names for itself", f"{name}-mm-dist")


def test_a_failing_plugin_is_an_error(site) -> None:
    _platform(site, "pictures", "raise RuntimeError('driver gone')")
    _refused(PluginFailed, "driver gone")


@pytest.mark.parametrize("identity", ["CUDA", "ROCM", "UNSPECIFIED"])
def test_only_out_of_tree_platforms_are_taken(site, identity) -> None:
    _platform(site, "pictures", identity=identity)
    _refused(PluginFailed, f"_enum {identity}", GROUP)


def test_a_class_of_the_other_runtime_is_no_platform(site) -> None:
    site.platform("llm")
    site.distribution("mixed-dist", {GROUP: {"mixed": "llm_plugin:activate"}})
    _refused(PluginFailed, "not a platform class", "MMPlatform")


def test_general_plugins_of_each_runtime_run_apart(site) -> None:
    site.module("heard", "calls = []\ndef srt(): calls.append('srt')\ndef mm(): calls.append('mm')\n")
    site.distribution("hooks-dist", {HOOKS: {"mm": "heard:mm"}, "sglang.srt.plugins": {"srt": "heard:srt"}})
    import heard

    plugins.load_plugins(kind=DIFFUSION)
    plugins.load_plugins(kind=DIFFUSION)
    assert heard.calls == ["mm"]
    plugins.load_plugins()
    assert heard.calls == ["mm", "srt"]
    assert [plugin.origin.name for plugin in plugins.loaded_plugins(DIFFUSION)] == ["mm"]
    assert [plugin.origin.name for plugin in plugins.loaded_plugins()] == ["srt", "mm"]


def test_hooks_of_a_platform_that_is_not_active_do_not_run(site, monkeypatch) -> None:
    _platform(site, "one", hooks="raise RuntimeError('must not run')")
    _platform(site, "two", hooks="pass")
    monkeypatch.setenv(VARIABLE, "two")
    plugins.load_plugins(kind=DIFFUSION)
    assert {plugin.origin.name: plugin.state for plugin in plugins.loaded_plugins(DIFFUSION)} == {
        "one": "left out",
        "two": "run",
    }


def test_a_filter_that_names_the_other_runtimes_plugin_is_no_error(site, monkeypatch) -> None:
    site.module("seen2", "calls = []\ndef srt(): calls.append('srt')\ndef mm(): calls.append('mm')\n")
    site.distribution("hooks-dist", {HOOKS: {"mm": "seen2:mm"}, "sglang.srt.plugins": {"srt": "seen2:srt"}})
    monkeypatch.setenv("SGLANG_PLUGINS", "srt,sglang_platform_core")
    plugins.load_plugins(kind=DIFFUSION)
    import seen2

    assert seen2.calls == []
