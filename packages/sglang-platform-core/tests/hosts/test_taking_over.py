"""Core's plugin empties the host's calls of the plugins after it, and is sure to be called by the host's loop."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sglang_platform.core.discovery.groups import OWN_PLUGIN
from sglang_platform.core.errors import HostError, LaunchRefused
from sglang_platform.core.sglang.diffusion import plugin_loop as diffusion
from sglang_platform.core.sglang.start import llm_plugin_loop as srt
from sglang_platform.core.sglang.start.plugin_loop import PluginLoop, refusing_the_launch
from warm_interpreter import run_warm

_PROGRAM = Path(__file__).parent / "programs" / "serve_or_refuse.py"
LOOP = PluginLoop("some_host.plugins", "collect", "load_them")

_HOST = """
def collect(found):
    plugins = {}
    for name, load in found.items():
        plugins[name] = (load(), name)
    return plugins

def load_them(plugins):
    for name, (function, distribution) in plugins.items():
        try:
            function()
        except ValueError:
            pass

def load_others(table):
    for name, (function, distribution) in table.items():
        function()
"""


def _in_host(function: str, plugins: dict[str, Any]) -> Any:
    host: dict[str, Any] = {"__name__": "some_host.plugins"}
    exec(_HOST, host)
    return host[function](plugins)


def _calls(called: list[str], core: Callable[[], None]) -> dict[str, Any]:
    return {
        "before": (lambda: called.append("before"), "a"),
        OWN_PLUGIN: (core, "core"),
        "after": (lambda: called.append("after"), "b"),
    }


def test_plugins_before_and_after_cores_own_are_left_to_core() -> None:
    called: list[str] = []

    def plugin(name: str) -> Callable[[], Callable[[], None]]:
        return lambda: lambda: called.append(name)

    def load_core() -> Callable[[], None]:
        LOOP.leave_collected_to_core()

        def core() -> None:
            called.append("core")
            LOOP.take_over()

        return core

    loads = {"before": plugin("before"), OWN_PLUGIN: load_core, "after": plugin("after")}
    plugins = _in_host("collect", loads)
    _in_host("load_them", plugins)
    assert called == ["core"]
    assert [distribution for _, distribution in plugins.values()] == ["before", OWN_PLUGIN, "after"]


@pytest.mark.sample(3)
@pytest.mark.host
@pytest.mark.parametrize("failing", ["", "first", "last"])
def test_plugins_of_others_are_run_once_on_sglangs_own_platform(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "last"):
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[sglang.srt.plugins]\n{name} = {name}_plugin:load\n")
        source = f"def load():\n    print('ran {name}')\n" + "    raise ValueError\n" * (name == failing)
        (tmp_path / f"{name}_plugin.py").write_text(source)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    done = run_warm(_PROGRAM, timeout=300)
    assert done.returncode == (1 if failing else 0), done.stderr
    assert done.stdout.count("ran first") == 1
    assert done.stdout.count("ran last") == (failing != "first")
    assert (f"general plugin {failing!r} failed" in done.stderr) == bool(failing)


@pytest.mark.host
def test_plugins_that_the_host_called_before_are_an_error() -> None:
    called: list[str] = []
    with pytest.raises(HostError, match="called other plugins before: before"):
        _in_host("load_them", _calls(called, LOOP.take_over))
    assert called == ["before"]


def test_outside_of_the_loop_no_calls_are_in_progress() -> None:
    assert LOOP.calls_in_progress() is None


@pytest.mark.host
@pytest.mark.parametrize("loop", [srt.LOOP, diffusion.LOOP], ids=["srt", "diffusion"])
def test_a_call_from_elsewhere_is_an_error_that_names_version_and_function(loop: PluginLoop) -> None:
    from importlib.metadata import version

    with pytest.raises(HostError) as raised:
        loop.take_over()
    for part in (
        f"SGLang {version('sglang')}",
        f"{loop.module}.{loop.function}()",
        "load_plugins()",
        OWN_PLUGIN,
    ):
        assert part in str(raised.value)


@pytest.mark.host
@pytest.mark.parametrize(("function", "with_core"), [("load_others", True), ("load_them", False)])
def test_a_loop_that_changed_is_an_error(function: str, with_core: bool) -> None:
    plugins = _calls([], LOOP.take_over)
    if not with_core:
        plugins = {"renamed": plugins[OWN_PLUGIN]}
    with pytest.raises(HostError, match=r"some_host\.plugins\.load_them"):
        _in_host(function, plugins)


@pytest.mark.host
def test_the_loops_are_where_the_host_has_them() -> None:
    from importlib import import_module

    for loop in (srt.LOOP, diffusion.LOOP):
        function = getattr(import_module(loop.module), loop.function)
        assert "plugins" in function.__code__.co_varnames


def test_any_error_of_cores_own_plugin_ends_the_launch() -> None:
    """SGLang logs an `Exception` of a plugin and serves on, without one hook."""

    def breaks() -> None:
        with refusing_the_launch():
            raise KeyError("sglang.srt.platforms")

    with pytest.raises(LaunchRefused) as caught:
        breaks()
    assert not isinstance(caught.value, Exception)
    assert "core's general plugin failed" in caught.value.what
    assert str(caught.value.plugin).startswith("sglang_platform_core (sglang-platform-core ")
    assert "KeyError: 'sglang.srt.platforms' (at " in (caught.value.why or "")
    assert "test_taking_over.py" in (caught.value.why or "")
    assert caught.value.fix
