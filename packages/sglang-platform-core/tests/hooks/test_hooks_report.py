"""Replacements, the report of what became of each hook, and taking hooks back."""

from __future__ import annotations

import json
import logging

import pytest

from sglang_platform.core.errors import HookSignatureError, PluginOrigin
from sglang_platform.core.hooks.registry import (
    HookRegistry,
    HookSource,
    HookType,
    plugin_hook,
    plugin_source,
)

ORIGIN = PluginOrigin("my_plugin", "my-dist", "1.2")


def anything(*args, **kwargs):
    return None


def test_two_replacements_the_last_wins_with_a_warning_naming_both(host, caplog):
    host.bring("sig")
    with caplog.at_level(logging.WARNING):
        HookRegistry.register(
            "sig:two", lambda a, b: "first", HookType.REPLACE, source=PluginOrigin("one", "d1")
        )
        with plugin_source(PluginOrigin("two", "d2")):
            HookRegistry.register("sig.two", lambda a, b: "last", HookType.REPLACE)
    assert "one (d1)" in caplog.text
    assert "two (d2)" in caplog.text
    HookRegistry.apply_hooks()
    assert host.load("sig").two(1, 2) == "last"
    first, last = HookRegistry.report()
    assert (first["state"], last["state"]) == ("failed", "applied")
    assert "overridden by the REPLACE hook" in first["why"]
    assert HookRegistry.is_applied("sig:two")


def test_the_same_replacement_again_is_the_same(host, caplog):
    """A platform registers where the host starts it, which it may do for each model of a process."""
    host.bring("sig")
    host.load("sig")

    def ours(a, b):
        return "ours"

    def theirs(a, b):
        return "theirs"

    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            HookRegistry.register("sig:two", ours, HookType.REPLACE)
            HookRegistry.apply_hooks()
            HookRegistry.register("sig.two", ours, HookType.REPLACE)
    assert caplog.text == ""
    assert [row["state"] for row in HookRegistry.report()] == ["applied"]
    HookRegistry.register("sig:two", theirs, HookType.REPLACE)
    HookRegistry.register("sig:two", ours, HookType.REPLACE)
    assert host.load("sig").two(1, 2) == "ours", "the last wins, also where it was there before another"
    assert [row["state"] for row in HookRegistry.report()] == ["failed", "failed", "applied"]


@pytest.mark.parametrize("type_", [HookType.BEFORE, HookType.AFTER, HookType.AROUND])
def test_the_same_hook_again_runs_once(host, type_):
    host.bring("sig")
    host.load("sig")
    calls = []

    def ours(*args, **kwargs):
        calls.append(args)
        return args[0](*args[1:], **kwargs) if type_ is HookType.AROUND else None

    for _ in range(2):
        HookRegistry.register("sig:two", ours, type_)
        HookRegistry.register("sig.two", ours, type_)
        HookRegistry.apply_hooks()
    HookRegistry.register("sig:two", lambda *args, **kwargs: ours(*args, **kwargs), type_)
    host.load("sig").two(1, 2)
    assert len(calls) == 2, "another hook comes beside it"
    assert [row["state"] for row in HookRegistry.report()] == ["applied", "applied"]


def test_a_replacement_that_does_not_fit_is_refused_each_time(host):
    host.bring("sig")
    host.load("sig")
    HookRegistry.apply_hooks()

    def takes_nothing():
        return None

    for _ in range(2):
        with pytest.raises(HookSignatureError):
            HookRegistry.register("sig:two", takes_nothing, HookType.REPLACE)


def test_report_rows(host):
    host.bring("sig")
    HookRegistry.register("sig.two", anything, source=HookSource("plain", "dist"), order=3)
    with plugin_source(ORIGIN):

        @plugin_hook("sig:C.method", type=HookType.BEFORE, required=False)
        def hook(*args, **kwargs): ...

    HookRegistry.apply_hooks()
    host.load("sig")
    rows = json.loads(json.dumps(HookRegistry.report()))
    assert [row["target"] for row in rows] == ["sig:two", "sig:C.method"]
    assert [row["plugin"] for row in rows] == ["plain", "my_plugin"]
    assert [row["distribution"] for row in rows] == ["dist", "my-dist"]
    assert [row["version"] for row in rows] == [None, "1.2"]
    assert [row["type"] for row in rows] == ["after", "before"]
    assert [row["required"] for row in rows] == [True, False]
    assert [row["state"] for row in rows] == ["applied", "applied"]
    assert rows[0]["hook"].endswith("anything")


def test_withdrawing_a_plugin_restores_what_it_changed_and_only_that(host):
    host.bring("sig")
    host.write(user="from sig import two")
    user = host.load("user")
    sig = host.load("sig")
    method, original = vars(sig.C)["method"], sig.two
    HookRegistry.apply_hooks()
    with plugin_source(PluginOrigin("good")):
        HookRegistry.register("sig:two", lambda result, a, b: [*result, "good"])
    with plugin_source(ORIGIN):
        HookRegistry.register("sig:two", lambda result, a, b: [*result, "bad"])
        HookRegistry.register("sig:C.method", lambda result, self, a: "bad")
    assert user.two(1, 2) == [1, 2, "good", "bad"]
    assert HookRegistry.withdraw(ORIGIN) == 2
    assert user.two(1, 2) == [1, 2, "good"]
    assert vars(sig.C)["method"] is method
    assert HookRegistry.withdraw(PluginOrigin("good")) == 1
    assert user.two is sig.two is original
    assert HookRegistry.report() == []


def test_unregister_says_whether_there_was_something(host):
    host.bring("sig")
    HookRegistry.register("sig:two", anything)
    HookRegistry.register("sig:two", anything, HookType.BEFORE)
    assert not HookRegistry.unregister("sig:two", anything, HookType.AROUND)
    assert HookRegistry.unregister("sig.two", anything, HookType.BEFORE)
    assert [row["type"] for row in HookRegistry.report()] == ["after"]
    assert HookRegistry.unregister("sig:two", anything)
    assert not HookRegistry.unregister("sig:two", anything)
