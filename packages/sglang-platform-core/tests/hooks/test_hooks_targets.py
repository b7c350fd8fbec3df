"""Targets that do not exist are refused by name, when they are found out; others wait for their module."""

from __future__ import annotations

import logging

import pytest

from sglang_platform.core.errors import HookSignatureError, HookTargetError, PluginOrigin
from sglang_platform.core.hooks.registry import (
    HookRegistry,
    HookType,
    plugin_source,
)

ORIGIN = PluginOrigin("my_plugin", "my-dist", "1.2")


def anything(*args, **kwargs):
    return None


SOURCE = """
import os as system
from base import thing, Base
if system.name:
    def conditional(): ...
try:
    def tried(): ...
except ImportError:
    tried = None
assigned = lambda x: x
class Class(Base):
    def schedule(self): ...
    attribute = schedule
    class Inner:
        def deep(self): ...
Class.patched = thing
"""
BASE = "def thing(): ...\nclass Base:\n    def from_base(self): ...\n"


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize(
    "target",
    [
        "checked:conditional",
        "checked:tried",
        "checked:assigned",
        "checked:thing",
        "checked:Class.schedule",
        "checked:Class.attribute",
        "checked:Class.patched",
        "checked:Class.from_base",
        "checked:Class.__init__",
        "checked.Class.Inner.deep",
        "checked:Base.from_base",
    ],
)
def test_existing_targets_are_not_refused(host, target, loaded):
    host.write(checked=SOURCE, base=BASE)
    if loaded:
        host.load("checked")
    HookRegistry.register(target, anything, HookType.BEFORE)
    HookRegistry.apply_hooks()
    host.load("checked")
    assert HookRegistry.is_applied(target)


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize(
    ("target", "nearest"),
    [
        ("checked:condition_al", "checked:conditional"),
        ("checked:Class.shedule", "checked:Class.schedule"),
        ("checked:Clas.schedule", "checked:Class"),
        ("checked:Class.Inner.deeep", "checked:Class.Inner.deep"),
        ("checked:Class.from_bass", "from_base"),
        ("checkd:Class.schedule", "checked"),
        ("checkd.Class.schedule", "checked"),
        ("folder.schedular:Scheduler.run", "folder.scheduler"),
        ("folder.schedular.Scheduler.run", "scheduler"),
        ("space.modul.f", "module"),
    ],
)
def test_missing_targets_are_an_error_with_the_nearest_name(host, target, nearest, loaded):
    host.write(
        checked=SOURCE,
        base=BASE,
        folder____init__="",
        folder__scheduler="class Scheduler:\n    def run(self): ...\n",
        space__module="def f(): ...",
    )
    if loaded:
        for name in ("checked", "folder", "space.module"):
            host.load(name)
    with plugin_source(ORIGIN):
        HookRegistry.register(target, anything, HookType.BEFORE)
    with pytest.raises(HookTargetError) as caught:
        HookRegistry.apply_hooks()
    text = str(caught.value)
    assert f"{target}: " in text
    assert nearest in text.partition("nearest:")[2].partition("(")[0]
    assert "my_plugin (my-dist 1.2)" in text
    assert "required=False" in text
    assert HookRegistry.report()[0]["state"] == "failed"


def test_all_missing_targets_are_listed_and_the_others_applied(host):
    host.write(checked=SOURCE, base=BASE, extra="def f(): return 1")
    extra = host.load("extra")
    for target in ("checked:one", "checked:Class.two", "nowhere:three"):
        HookRegistry.register(target, anything, HookType.BEFORE)
    HookRegistry.register("extra:f", lambda result: result + 1)
    with pytest.raises(HookTargetError) as caught:
        HookRegistry.apply_hooks()
    assert "3 required hook targets do not exist" in str(caught.value)
    for target in ("checked:one", "checked:Class.two", "nowhere:three"):
        assert target in str(caught.value)
    assert extra.f() == 2


def test_the_error_stands_until_it_is_mended(host):
    host.write(checked="")
    HookRegistry.register("checked:f", anything)
    for _ in range(2):
        with pytest.raises(HookTargetError):
            HookRegistry.apply_hooks()
    host.write(checked="def f(): return 1")
    HookRegistry.apply_hooks()
    host.load("checked")
    assert HookRegistry.is_applied("checked:f")


def test_not_required_is_reported_only(host, caplog):
    host.write(checked=SOURCE, base=BASE)
    HookRegistry.register("checked:absent", anything, required=False)
    with caplog.at_level(logging.WARNING):
        HookRegistry.apply_hooks()
    host.load("checked")
    (row,) = HookRegistry.report()
    assert (row["state"], "has no 'absent'" in row["why"]) == ("failed", True)
    assert "checked:absent is not applied" in caplog.text
    assert not HookRegistry.is_applied("checked:absent")


def test_a_source_that_cannot_tell_leaves_the_hook_pending(host):
    host.write(star="from elsewhere_unknown import *\n", meta="for n in 'ab': globals()[n] = len\n")
    HookRegistry.register("star:f", anything)
    HookRegistry.register("meta:a", anything)
    HookRegistry.apply_hooks()
    assert [row["state"] for row in HookRegistry.report()] == ["pending", "pending"]
    host.load("meta")
    assert HookRegistry.is_applied("meta:a")


def test_a_module_never_imported_leaves_its_hook_pending(host):
    host.write(checked=SOURCE, base=BASE)
    HookRegistry.register("checked:thing", anything)
    HookRegistry.apply_hooks()
    (row,) = HookRegistry.report()
    assert (row["state"], row["why"]) == ("pending", "this process has not imported checked")
    assert not HookRegistry.is_applied("checked:thing")


@pytest.mark.parametrize("bad", ["", "name", "a:", ":b", "a..b", "a:b:c", "a b:c", None])
def test_malformed_targets(bad):
    with pytest.raises(HookTargetError, match="not a hook target"):
        HookRegistry.register(bad, anything)


def test_a_late_registration_raises_what_apply_would(host):
    host.write(checked=SOURCE, base=BASE)
    host.load("checked")
    HookRegistry.apply_hooks()
    with pytest.raises(HookTargetError, match="checked:absent"):
        HookRegistry.register("checked:absent", anything)
    with pytest.raises(HookSignatureError):
        HookRegistry.register("checked:Class.schedule", lambda: None, HookType.BEFORE)
