"""Hooks that serve a registry are of the plugin that asked for them, and a plugin that failed leaves no part behind."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from sglang_platform.core.errors import PluginOrigin
from sglang_platform.core.hooks.registry import HookRegistry, plugin_source
from sglang_platform.core.registries import coordinators, events, pools, register_forward_hook
from sglang_platform.core.registries.registry import withdraw

CORE, VENDOR = PluginOrigin("core", "core", "1"), PluginOrigin("vendor", "vendor", "1")


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    module = ModuleType("a_host")
    exec("def step(): return 'step'", module.__dict__)
    monkeypatch.setitem(sys.modules, "a_host", module)
    yield module
    HookRegistry.reset()


def _hook(*_: Any) -> None:
    HookRegistry.register("a_host:step", lambda result: None)


def _owners() -> list[str | None]:
    return [record["plugin"] for record in HookRegistry.report()]


def test_who_waits_for_the_first_entry_owns_its_hooks() -> None:
    with plugin_source(CORE):
        coordinators.coordinators.when_first_added(_hook)
    with plugin_source(VENDOR):
        coordinators.register_request_coordinator("counter", dict)
    assert _owners() == [CORE.name]
    assert HookRegistry.withdraw(VENDOR) == 0


def test_who_waits_for_an_event_owns_its_hooks() -> None:
    with plugin_source(CORE):
        events.when_heard(_hook)
    with plugin_source(VENDOR):
        register_forward_hook("listener", SimpleNamespace(on_cache_flushed=lambda: None))
    assert _owners() == [CORE.name]


def test_a_withdrawn_plugin_is_told_of_nothing_more() -> None:
    told: list[str] = []
    with plugin_source(VENDOR):
        register_forward_hook("vendor", SimpleNamespace(on_cache_flushed=lambda: told.append("vendor")))
        pools.register_kv_pool_factory("vendor", lambda model, arguments: True, lambda kind: None)
    register_forward_hook("other", SimpleNamespace(on_cache_flushed=lambda: told.append("other")))
    withdraw(VENDOR)
    events.dispatch("on_cache_flushed")
    assert told == ["other"]
    assert pools.resolve_kv_pool_factory(None, None) is None
