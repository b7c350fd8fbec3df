"""The rules by which the platform is chosen: each with its outcome and its message."""

from __future__ import annotations

import logging
import sys

import pytest

from sglang_platform.core.discovery import current
from sglang_platform.core.errors import (
    ConfigurationError,
    ContractVersionError,
    DuplicatePlugins,
    PlatformError,
    PluginFailed,
    PluginNotFound,
    PluginOrigin,
    SeveralPlatforms,
)

DECLINES = "raise PlatformUnavailable('no /dev/mydev')"


def _chosen() -> str | None:
    origin = current.decide().origin
    return None if origin is None else origin.name


def _refused(kind: type[PlatformError], *words: str) -> PlatformError:
    """The process is refused with an error of this class whose message has all of the words."""
    with pytest.raises(kind) as caught:
        current.decide()
    assert type(caught.value) is kind
    assert isinstance(caught.value, RuntimeError)  # as in SGLang: a plugin moves by changing an import
    message = str(caught.value)
    assert [word for word in words if word not in message] == [], message
    return caught.value


# No variable set: every plugin is asked.


def test_no_plugin_installed_gives_the_base_platform(site) -> None:
    decision = current.decide()
    assert (decision.origin, decision.platform_class) == (None, None)
    assert decision.trace.outcome == "no platform plugin is installed"
    assert current.current_platform.device_name == "unknown"


def test_the_one_active_plugin_is_the_platform(site) -> None:
    site.platform("here", version="2.1")
    site.platform("absent", DECLINES)
    decision = current.decide()
    assert decision.origin == PluginOrigin("here", "here-dist", "2.1")
    assert decision.platform_class is sys.modules["here_plugin_cls"].Platform


def test_none_active_gives_the_base_platform_and_every_reason(site, caplog) -> None:
    caplog.set_level(logging.INFO)
    site.platform("a", DECLINES)
    site.platform("b", "return None")
    assert _chosen() is None
    reasons = {candidate.origin.name: candidate.reason for candidate in current.trace().candidates}
    without = "activate() returned None: not on this machine; it gives no reason, as PlatformUnavailable(reason) does"
    assert reasons == {"a": "no /dev/mydev", "b": without}
    assert "a (a-dist 1.0): no /dev/mydev" in caplog.text


def test_several_active_are_an_error_that_says_what_to_set(site) -> None:
    site.platform("one")
    site.platform("two")
    error = _refused(SeveralPlatforms, "one (one-dist 1.0)", "two (two-dist 1.0)", "SGLANG_PLATFORM=one")
    assert error.fix == "set SGLANG_PLATFORM=one or SGLANG_PLATFORM=two"


def test_a_failed_plugin_stops_the_launch_though_another_one_is_active(site) -> None:
    site.platform("bad", "raise RuntimeError('driver gone')")
    site.platform("good")
    error = _refused(
        PluginFailed, "bad (bad-dist 1.0)", "RuntimeError: driver gone", "SGLANG_PLATFORM_ON_ERROR=warn"
    )
    assert error.plugin.name == "bad"


def test_all_failed_plugins_are_named(site) -> None:
    site.platform("bad", "raise RuntimeError('driver gone')")
    site.platform("worse", "return 3")
    _refused(PluginFailed, "2 platform plugins failed", "bad-dist", "driver gone", "worse-dist", "the int 3")


def test_on_error_warn_goes_on_without_the_failed_plugin(site, monkeypatch, caplog) -> None:
    monkeypatch.setenv("SGLANG_PLATFORM_ON_ERROR", "warn")
    site.platform("bad", "raise RuntimeError('driver gone')")
    site.platform("good")
    assert _chosen() == "good"
    assert "driver gone" in caplog.text
    assert "SGLANG_PLATFORM_ON_ERROR=warn: went on without bad (bad-dist 1.0)" in current.trace().notes


def test_on_error_warn_survives_a_class_that_cannot_be_imported(site, monkeypatch, caplog) -> None:
    monkeypatch.setenv("SGLANG_PLATFORM_ON_ERROR", "warn")
    site.platform("bad", "return 'bad_plugin_missing:Platform'")
    assert current.current_platform.device_name == "unknown"
    assert "bad_plugin_missing" in caplog.text
    assert current.choice().origin is None


def test_on_error_warn_survives_a_class_that_cannot_be_instantiated(site, monkeypatch, caplog) -> None:
    monkeypatch.setenv("SGLANG_PLATFORM_ON_ERROR", "warn")
    site.platform("bad")
    site.module("bad_plugin_cls", _BAD_INIT)
    assert current.current_platform.device_name == "unknown"
    assert "no context" in caplog.text
    assert current.decision().origin is None


_BAD_INIT = """
from sglang_platform.core.contract.srt import SRTPlatform
class Platform(SRTPlatform):
    def __init__(self):
        raise OSError("no context")
"""


def test_on_error_warn_does_not_settle_duplicates_or_several(site, monkeypatch) -> None:
    monkeypatch.setenv("SGLANG_PLATFORM_ON_ERROR", "warn")
    site.platform("one")
    site.platform("two")
    _refused(SeveralPlatforms, "one", "two")


@pytest.mark.parametrize(("value", "fix"), [("wran", "set SGLANG_PLATFORM_ON_ERROR=warn"), ("1", "unset")])
def test_an_unknown_error_policy_is_refused(site, monkeypatch, value, fix) -> None:
    monkeypatch.setenv("SGLANG_PLATFORM_ON_ERROR", value)
    _refused(ConfigurationError, f"SGLANG_PLATFORM_ON_ERROR={value!r}", fix)


# SGLANG_PLATFORM=name: that plugin and no other.


def test_the_named_plugin_is_the_only_one_imported(site, monkeypatch) -> None:
    monkeypatch.setenv("SGLANG_PLATFORM", "one")
    site.platform("one")
    site.platform("two")
    site.platform("bad", "raise RuntimeError('never asked')")
    assert _chosen() == "one"
    assert {"two_plugin", "bad_plugin"}.isdisjoint(sys.modules)
    reasons = {candidate.origin.name: candidate.reason for candidate in current.trace().candidates}
    assert reasons["two"] == "SGLANG_PLATFORM=one"


@pytest.mark.parametrize(
    ("typed", "meant"), [("exmaple_oot", "example_oot"), ("Example-OOT", "example_oot"), ("cuds", "cuda")]
)
def test_an_unknown_name_lists_what_is_installed_and_offers_the_nearest(
    site, monkeypatch, typed, meant
) -> None:
    monkeypatch.setenv("SGLANG_PLATFORM", typed)
    site.platform("example_oot")
    site.platform("cuda")
    error = _refused(
        PluginNotFound, f"SGLANG_PLATFORM={typed!r}", f"did you mean {meant!r}?", "cuda (cuda-dist 1.0)"
    )
    assert error.fix.startswith(f"set SGLANG_PLATFORM={meant}")
    assert {"example_oot_plugin", "cuda_plugin"}.isdisjoint(sys.modules)


def test_an_unknown_name_that_resembles_nothing_offers_no_spelling(site, monkeypatch) -> None:
    monkeypatch.setenv("SGLANG_PLATFORM", "zzz")
    site.platform("cuda")
    assert "did you mean" not in str(_refused(PluginNotFound, "installed: cuda (cuda-dist 1.0)"))


def test_a_name_where_nothing_is_installed_says_to_install(site, monkeypatch) -> None:
    monkeypatch.setenv("SGLANG_PLATFORM", "cuda")
    _refused(PluginNotFound, "no platform plugin is installed", "pip install")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("return None", "activate() returned None"),
        ("raise PlatformUnavailable('no /dev/kfd')", "no /dev/kfd"),
    ],
)
@pytest.mark.parametrize("policy", ["error", "warn"])
def test_a_named_plugin_that_declines_is_an_error_under_every_policy(
    site, monkeypatch, answer, reason, policy
) -> None:
    monkeypatch.setenv("SGLANG_PLATFORM", "rocm")
    monkeypatch.setenv("SGLANG_PLATFORM_ON_ERROR", policy)
    site.platform("rocm", answer)
    _refused(PluginFailed, "SGLANG_PLATFORM='rocm'", reason, "rocm (rocm-dist 1.0)", "unset SGLANG_PLATFORM")


@pytest.mark.parametrize(
    "activate", ["raise RuntimeError('driver gone')", "return 'rocm_plugin_missing:Platform'"]
)
def test_a_named_plugin_that_fails_is_an_error_under_every_policy(site, monkeypatch, activate) -> None:
    monkeypatch.setenv("SGLANG_PLATFORM", "rocm")
    monkeypatch.setenv("SGLANG_PLATFORM_ON_ERROR", "warn")
    site.platform("rocm", activate)
    error = _refused(PluginFailed, "rocm (rocm-dist 1.0)")
    assert "ON_ERROR" not in str(error)


def test_an_empty_name_is_no_name(site, monkeypatch) -> None:
    monkeypatch.setenv("SGLANG_PLATFORM", "  ")
    site.platform("one")
    assert _chosen() == "one"


# Two distributions, one name.


def test_two_distributions_with_one_name_are_an_error_naming_both(site) -> None:
    site.platform("dev")
    site.distribution("other", {"sglang.srt.platforms": {"dev": "other:activate"}})
    _refused(
        DuplicatePlugins, "'dev'", "dev (dev-dist 1.0) = dev_plugin:activate", "dev (other 1.0)", "uninstall"
    )
    assert "dev_plugin" not in sys.modules


def test_a_duplicate_of_another_name_does_not_concern_a_named_plugin(site, monkeypatch) -> None:
    site.platform("one")
    site.platform("dev")
    site.distribution("other", {"sglang.srt.platforms": {"dev": "other:activate"}})
    monkeypatch.setenv("SGLANG_PLATFORM", "one")
    assert _chosen() == "one"
    current.reset()
    monkeypatch.setenv("SGLANG_PLATFORM", "dev")
    _refused(DuplicatePlugins, "dev-dist", "other")


def test_one_distribution_may_carry_several_platforms(site, monkeypatch) -> None:
    site.platform("one", DECLINES)
    site.module(
        "pair",
        "from sglang_platform.core import platform_plugin\n"
        "@platform_plugin\ndef big(): return 'one_plugin_cls:Platform'\ndef small(): return None\n",
    )
    site.distribution("pair-dist", {"sglang.srt.platforms": {"big": "pair:big", "small": "pair:small"}})
    assert current.decide().origin == PluginOrigin("big", "pair-dist", "1.0")


# SGLANG_PLATFORM_PLUGIN=name=pkg.mod:Class.


@pytest.mark.parametrize("location", ["dev.platform:Device", "dev.platform.Device"])
def test_a_platform_can_be_named_without_being_installed(site, monkeypatch, location) -> None:
    site.platform("another")
    site.module("dev.platform", _DEVICE)
    monkeypatch.setenv("SGLANG_PLATFORM_PLUGIN", f"mine={location}")
    assert current.decide().origin == PluginOrigin("mine")
    assert current.current_platform.device_name == "mine"
    assert "another_plugin" not in sys.modules


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("dev.platform.Device", "Device"),
        ("dev.platform:Device", "Device"),
        ("mine:dev.platform.Device", "mine"),
        ("mine=dev.platform:Device", "mine"),
        ("mine = dev.platform.Device", "mine"),
        ("flat:Device", "Device"),
    ],
)
def test_every_form_of_the_variable(site, monkeypatch, value, name) -> None:
    site.module("dev.platform", _DEVICE)
    site.module("flat", _DEVICE)
    monkeypatch.setenv("SGLANG_PLATFORM_PLUGIN", value)
    assert current.decide().origin == PluginOrigin(name)
    assert current.current_platform.device_name == "mine"


_DEVICE = """
from sglang_platform.core.contract.srt import SRTPlatform
class Device(SRTPlatform):
    device_name = "mine"
"""


def test_the_development_platform_goes_before_an_installed_one_of_its_name(site, monkeypatch) -> None:
    site.platform("mine", "raise RuntimeError('the installed one')")
    site.module("dev.platform", _DEVICE)
    monkeypatch.setenv("SGLANG_PLATFORM_PLUGIN", "mine = dev.platform:Device")
    monkeypatch.setenv("SGLANG_PLATFORM", "mine")
    assert current.decide().origin == PluginOrigin("mine")
    shadowed = current.trace().candidates[0]
    assert (shadowed.outcome, shadowed.reason) == (
        "not asked",
        "SGLANG_PLATFORM_PLUGIN brings one of that name",
    )


def test_two_variables_that_name_two_platforms_are_refused(site, monkeypatch) -> None:
    monkeypatch.setenv("SGLANG_PLATFORM_PLUGIN", "mine=dev.platform:Device")
    monkeypatch.setenv("SGLANG_PLATFORM", "cuda")
    _refused(ConfigurationError, "'cuda'", "'mine'", "unset one of them")


@pytest.mark.parametrize(
    "value", ["mine", "=dev:Device", "mine=", "mine=Device", "mine=dev:Device:x", "mine=a b:C"]
)
def test_a_malformed_development_platform_is_refused(site, monkeypatch, value) -> None:
    monkeypatch.setenv("SGLANG_PLATFORM_PLUGIN", value)
    _refused(ConfigurationError, repr(value), "name=pkg.mod:Class")


def test_a_development_platform_that_is_missing_is_an_error_under_every_policy(site, monkeypatch) -> None:
    monkeypatch.setenv("SGLANG_PLATFORM_ON_ERROR", "warn")
    monkeypatch.setenv("SGLANG_PLATFORM_PLUGIN", "mine=dev_nowhere.platform:Device")
    _refused(PluginFailed, "dev_nowhere.platform:Device", "No module named 'dev_nowhere'")


# The contract version, read from metadata.


def test_a_plugin_of_another_contract_version_is_refused_before_it_is_imported(site) -> None:
    site.platform("future", contract="v99")
    _refused(
        ContractVersionError,
        "contract version 99",
        "speaks version 1",
        "future (future-dist 1.0)",
        "install a matching version of sglang-platform-core",
    )
    assert "future_plugin" not in sys.modules


def test_a_plugin_of_an_older_contract_version_is_told_to_upgrade_itself(site) -> None:
    site.platform("old", contract="v0")
    _refused(
        ContractVersionError,
        "contract version 0",
        "speaks version 1",
        "install a matching version of old-dist",
    )


def test_a_contract_version_that_is_none_is_refused(site) -> None:
    site.platform("odd", contract="1.0")
    _refused(ContractVersionError, "'1.0'", "v<number>")


def test_the_contract_version_is_a_failure_that_warn_survives(site, monkeypatch) -> None:
    monkeypatch.setenv("SGLANG_PLATFORM_ON_ERROR", "warn")
    site.platform("future", contract="v99")
    site.platform("good")
    assert _chosen() == "good"


def test_a_plugin_that_states_no_contract_version_is_allowed(site) -> None:
    site.platform("native", contract=None)
    assert _chosen() == "native"


def test_the_contract_version_of_another_distribution_does_not_count(site) -> None:
    site.platform("dev", contract=None)
    site.distribution("other", {"sglang_platform.contract": {"dev": "v99"}})
    assert _chosen() == "dev"
