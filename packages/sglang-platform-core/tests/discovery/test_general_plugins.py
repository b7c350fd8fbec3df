"""`load_plugins()`: which general plugins run, once, in which order, and what a failure leaves behind."""

from __future__ import annotations

import sys
import threading

import pytest

from sglang_platform.core import plugins
from sglang_platform.core.discovery import current
from sglang_platform.core.errors import (
    ConfigurationError,
    ContractVersionError,
    DuplicatePlugins,
    HookTargetError,
    LaunchRefused,
    PlatformError,
    PluginFailed,
    PluginNotFound,
    PluginOrigin,
)
from sglang_platform.core.hooks.registry import HookRegistry

GENERAL = "sglang.srt.plugins"
PLATFORMS = "sglang.srt.platforms"


@pytest.fixture(autouse=True)
def _no_hooks_left():
    HookRegistry.reset()
    yield
    HookRegistry.reset()


def _plugin(site, name: str, body: str = "", **metadata) -> None:
    """The distribution `<name>-dist` with one general plugin; its calls are recorded in the module `journal`."""
    if not (site.folder / "journal.py").exists():
        site.module("journal", "calls = []\ndef greet(name): return f'hello {name}'\n")
    lines = "\n    ".join(["import journal", f"journal.calls.append({name!r})", *body.splitlines()])
    site.module(f"{name}_hooks", f"{HEADER}\ndef register():\n    {lines}\n")
    site.distribution(f"{name}-dist", {GENERAL: {name: f"{name}_hooks:register"}}, **metadata)


HEADER = "from sglang_platform.core.hooks.registry import HookRegistry, HookType\n"
SHOUT = "HookRegistry.register('journal:greet', lambda result, name: result.upper())"


def _load(**arguments) -> list[str]:
    plugins.load_plugins(**arguments)
    return getattr(sys.modules.get("journal"), "calls", [])


def _states() -> dict[str, str]:
    return {plugin.origin.name: plugin.state for plugin in plugins.loaded_plugins()}


def _reason(name: str) -> str:
    return next(plugin.reason for plugin in plugins.loaded_plugins() if plugin.origin.name == name)


def _refused(kind: type[PlatformError], *words: str) -> PlatformError:
    with pytest.raises(kind) as caught:
        plugins.load_plugins()
    assert type(caught.value) is kind
    message = str(caught.value)
    assert [word for word in words if word not in message] == [], message
    return caught.value


def test_without_plugins_nothing_happens(site) -> None:
    plugins.load_plugins()
    assert plugins.loaded_plugins() == ()


def test_every_plugin_runs_once_and_its_hooks_are_applied(site) -> None:
    _plugin(site, "b", SHOUT)
    _plugin(site, "a")
    assert _load() == ["a", "b"]
    plugins.load_plugins()
    assert sys.modules["journal"].calls == ["a", "b"]
    assert sys.modules["journal"].greet("you") == "HELLO YOU"
    assert [(p.origin, p.state) for p in plugins.loaded_plugins()] == [
        (PluginOrigin("a", "a-dist", "1.0"), "run"),
        (PluginOrigin("b", "b-dist", "1.0"), "run"),
    ]
    assert all(plugin.seconds is not None for plugin in plugins.loaded_plugins())


def test_each_hook_carries_the_plugin_that_registered_it(site) -> None:
    _plugin(site, "a", SHOUT)
    _load()
    (row,) = HookRegistry.report()
    assert (row["plugin"], row["distribution"], row["version"]) == ("a", "a-dist", "1.0")


def test_threads_that_load_at_once_load_once(site) -> None:
    _plugin(site, "slow", "import time; time.sleep(0.05)\njournal.calls.append('done')")
    seen = []

    def load() -> None:
        plugins.load_plugins()
        seen.append(list(sys.modules["journal"].calls))

    threads = [threading.Thread(target=load) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert seen == [["slow", "done"]] * 8


def test_a_plugin_that_loads_plugins_itself_changes_nothing(site) -> None:
    _plugin(site, "a", "from sglang_platform.core.plugins import load_plugins; load_plugins()")
    assert _load() == ["a"]


def test_core_s_own_plugin_is_left_to_the_host(site) -> None:
    site.distribution("sglang-platform-core", {GENERAL: {"sglang_platform_core": "nowhere:load"}})
    plugins.load_plugins()
    assert plugins.loaded_plugins() == ()


# SGLANG_PLUGINS


def test_the_filter_names_the_plugins_that_run(site, monkeypatch) -> None:
    monkeypatch.setenv("SGLANG_PLUGINS", " a , c ,a")
    for name in "abc":
        _plugin(site, name)
    assert _load() == ["a", "c"]
    assert "b_hooks" not in sys.modules
    assert (_states()["b"], _reason("b")) == ("left out", "SGLANG_PLUGINS=a,c")


def test_the_filter_does_not_hide_a_platform(site, monkeypatch) -> None:
    monkeypatch.setenv("SGLANG_PLUGINS", "a")
    site.platform("dev")
    _plugin(site, "a")
    assert _load() == ["a"]
    assert current.current_platform.device_name == "dev"


def test_an_unknown_name_in_the_filter_offers_the_nearest(site, monkeypatch) -> None:
    monkeypatch.setenv("SGLANG_PLUGINS", "my_hoks,other")
    _plugin(site, "my_hooks")
    _refused(PluginNotFound, "'my_hoks'", "did you mean 'my_hooks'?", "installed general plugins: my_hooks")
    assert "my_hooks_hooks" not in sys.modules


def test_platforms_and_core_s_own_plugin_may_stand_in_the_filter_since_the_host_reads_it_too(
    site, monkeypatch
) -> None:
    monkeypatch.setenv("SGLANG_PLUGINS", "dev,sglang_platform_core,a")
    site.platform("dev")
    _plugin(site, "a")
    assert _load() == ["a"]


def test_a_filter_that_names_nothing_is_refused(site, monkeypatch) -> None:
    monkeypatch.setenv("SGLANG_PLUGINS", " , ")
    _plugin(site, "a")
    _refused(ConfigurationError, "SGLANG_PLUGINS", "names no plugin")


def test_an_empty_filter_is_no_filter(site, monkeypatch) -> None:
    monkeypatch.setenv("SGLANG_PLUGINS", "")
    _plugin(site, "a")
    assert _load() == ["a"]


# Two plugins of one name


def test_two_distributions_with_one_plugin_name_are_an_error_naming_both(site) -> None:
    _plugin(site, "a")
    site.distribution("other", {GENERAL: {"a": "elsewhere:register"}})
    _refused(
        DuplicatePlugins,
        "a (a-dist 1.0) = a_hooks:register",
        "a (other 1.0) = elsewhere:register",
        "uninstall",
    )


def test_duplicates_that_are_filtered_out_do_no_harm(site, monkeypatch) -> None:
    monkeypatch.setenv("SGLANG_PLUGINS", "b")
    _plugin(site, "a")
    site.distribution("other", {GENERAL: {"a": "elsewhere:register"}})
    _plugin(site, "b")
    assert _load() == ["b"]


# The provenance rule: a platform's own hooks run only with their platform


def _with_hooks(site, name: str, activate: str = "") -> None:
    """A distribution with a platform and a general plugin."""
    site.platform(name, activate)
    _plugin(site, f"{name}_general")
    info = site.folder / f"{name}_dist-1.0.dist-info" / "entry_points.txt"
    own = site.folder / f"{name}_general_dist-1.0.dist-info"
    info.write_text(info.read_text() + "\n" + (own / "entry_points.txt").read_text())
    for file in own.iterdir():
        file.unlink()
    own.rmdir()


def test_the_hooks_of_an_inactive_platform_do_not_run(site) -> None:
    _with_hooks(site, "here")
    _with_hooks(site, "absent", "raise PlatformUnavailable('no device')")
    assert _load() == ["here_general"]
    assert "absent_general_hooks" not in sys.modules
    assert _states() == {"absent_general": "left out", "here_general": "run"}
    assert "belongs to the platform 'absent', and the active one is here" in _reason("absent_general")


def test_the_hooks_of_a_platform_that_is_not_named_do_not_run(site, monkeypatch) -> None:
    monkeypatch.setenv("SGLANG_PLATFORM", "one")
    _with_hooks(site, "one")
    _with_hooks(site, "two")
    assert _load() == ["one_general"]
    assert "two_plugin" not in sys.modules


def test_no_platform_active_leaves_out_the_hooks_of_all_platforms(site) -> None:
    _with_hooks(site, "absent", "return None")
    _plugin(site, "free")
    assert _load() == ["free"]
    assert "the active one is none of the plugins" in _reason("absent_general")


def test_a_distribution_with_two_platforms_keeps_its_hooks_for_either(site, monkeypatch) -> None:
    _with_hooks(site, "big")
    file = site.folder / "big_dist-1.0.dist-info" / "entry_points.txt"
    file.write_text(
        file.read_text().replace(
            "[sglang.srt.platforms]", "[sglang.srt.platforms]\nsmall = big_plugin:activate"
        )
    )
    monkeypatch.setenv("SGLANG_PLATFORM", "small")
    assert _load() == ["big_general"]


def test_a_failing_platform_is_not_asked_for_where_no_plugin_depends_on_it(site) -> None:
    site.platform("bad", "raise RuntimeError('driver gone')")
    _plugin(site, "free")
    assert _load() == ["free"]


def test_a_refused_platform_stops_the_plugins_that_depend_on_it(site) -> None:
    _with_hooks(site, "bad", "raise RuntimeError('driver gone')")
    _refused(PluginFailed, "bad (bad-dist 1.0)", "driver gone")


def test_the_platform_s_class_is_not_imported_to_filter(site) -> None:
    _with_hooks(site, "here")
    assert _load() == ["here_general"]
    assert "here_plugin_cls" not in sys.modules


# Failures


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            "raise RuntimeError('no profile')",
            ["general plugin 'bad' failed", "RuntimeError: no profile", "bad_hooks.py:"],
        ),
        ("raise SystemExit(1)", ["SystemExit: 1"]),
        ("import bad_dependency_gone", ["install what provides 'bad_dependency_gone'"]),
    ],
)
def test_a_failed_plugin_stops_the_launch_and_leaves_no_hook(site, body, words) -> None:
    _plugin(site, "bad", f"{SHOUT}\n{body}")
    _plugin(site, "later")
    error = _refused(PluginFailed, "bad (bad-dist 1.0)", "SGLANG_PLATFORM_ON_ERROR=warn", *words)
    assert error.__cause__ is not None
    assert HookRegistry.report() == []
    assert _states() == {"bad": "failed"}
    assert sys.modules["journal"].calls == ["bad"]
    again = _refused(PluginFailed)
    assert (again.what, again.plugin) == (error.what, error.plugin)
    assert "a process loads its plugins once" in str(again)
    assert sys.modules["journal"].calls == ["bad"]


def test_warn_goes_on_without_the_failed_plugin_and_without_its_hooks(site, monkeypatch, caplog) -> None:
    monkeypatch.setenv("SGLANG_PLATFORM_ON_ERROR", "warn")
    _plugin(site, "bad", f"{SHOUT}\nraise RuntimeError('no profile')")
    _plugin(site, "good", "HookRegistry.register('journal:greet', lambda result, name: result + '!')")
    assert _load() == ["bad", "good"]
    assert sys.modules["journal"].greet("you") == "hello you!"
    assert [row["plugin"] for row in HookRegistry.report()] == ["good"]
    assert _states() == {"bad": "failed", "good": "run"}
    assert "no profile" in caplog.text


def test_hooks_registered_while_the_module_is_imported_are_withdrawn_too(site) -> None:
    site.module("journal", "def greet(name): return name\n")
    site.module("bad_hooks", f"{HEADER}{SHOUT}\nraise RuntimeError('half way')\n")
    site.distribution("bad-dist", {GENERAL: {"bad": "bad_hooks:register"}})
    _refused(PluginFailed, "could not be imported", "half way")
    assert HookRegistry.report() == []


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("gone:register", ["No module named 'gone'", "correct the entry point"]),
        ("bad_hooks:registre", ["has no attribute 'registre'", "correct the entry point"]),
        ("bad_hooks", ["the module <module 'bad_hooks'"]),
    ],
)
def test_an_entry_point_that_leads_nowhere(site, value, words) -> None:
    site.module("bad_hooks", "def register(): ...")
    site.distribution("bad-dist", {GENERAL: {"bad": value}})
    _refused(PluginFailed, "bad (bad-dist 1.0)", *words)


def test_a_general_plugin_of_another_contract_version_is_refused_before_import(site) -> None:
    site.module("bad_hooks", "def register(): ...")
    site.distribution(
        "bad-dist", {GENERAL: {"bad": "bad_hooks:register"}, "sglang_platform.contract": {"bad": "v99"}}
    )
    _refused(ContractVersionError, "contract version 99", "speaks version 1")
    assert "bad_hooks" not in sys.modules


def test_a_required_hook_without_a_target_stops_the_launch(site) -> None:
    _plugin(site, "a", "HookRegistry.register('journal:great', lambda result, name: None)")
    error = _refused(HookTargetError, "journal", "great")
    assert _refused(HookTargetError).what == error.what


def test_a_plugin_that_refuses_the_launch_is_not_rewrapped(site) -> None:
    _plugin(
        site,
        "strict",
        "from sglang_platform.core.errors import LaunchRefused\nraise LaunchRefused('not today')",
    )
    with pytest.raises(LaunchRefused, match="not today"):
        plugins.load_plugins()
    with pytest.raises(LaunchRefused, match="not today"):
        plugins.load_plugins()
