"""Nothing about a hook fails silently: what is refused, when, and what the message says."""

from __future__ import annotations

import json
import logging

import pytest

from sglang_platform.core.errors import HookError, HookSignatureError, HookTargetError, PluginOrigin
from sglang_platform.core.hooks.registry import (
    RETURN_NONE,
    HookRegistry,
    HookSource,
    HookType,
    plugin_hook,
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


@pytest.mark.parametrize("type_", [HookType.BEFORE, HookType.AFTER, HookType.AROUND])
def test_a_class_as_hook_can_only_replace(type_):
    with pytest.raises(TypeError, match="REPLACE") as caught:
        HookRegistry.register("a:b", dict, type_)
    assert isinstance(caught.value, HookError)
    assert HookRegistry.report() == []


@pytest.mark.parametrize(("hook", "type_"), [(3, HookType.AFTER), (None, HookType.REPLACE)])
def test_what_cannot_be_called_is_no_hook(hook, type_):
    with pytest.raises(TypeError):
        HookRegistry.register("a:b", hook, type_)


def test_a_hook_type_must_be_one():
    with pytest.raises(HookError, match=r"HookType\.BEFORE"):
        HookRegistry.register("a:b", anything, "before")


SIGNATURES = """
def two(a, b): return a, b
def optional(a, b=1): return a, b
def keyword(a, *, k=1): return a, k
def many(a, *args): return a
def open(a, **kwargs): return a
class C:
    def method(self, a): return a
    @staticmethod
    def static(a): return a
    @classmethod
    def class_(cls, a): return a
    @property
    def prop(self): return 1
"""

REFUSED = [
    ("two", "lambda a: None", HookType.BEFORE, "no place for b"),
    ("two", "lambda result, a: None", HookType.AFTER, "no place for b"),
    ("two", "lambda original: None", HookType.AROUND, "no place for a, b"),
    ("two", "lambda a: None", HookType.REPLACE, "no place for b"),
    ("two", "lambda a, b, c: None", HookType.BEFORE, "requires c"),
    ("two", "lambda a, b, *, c: None", HookType.BEFORE, "requires the keyword c"),
    ("optional", "lambda a: None", HookType.BEFORE, "no place for b"),
    (
        "optional",
        "lambda a, b: None",
        HookType.BEFORE,
        "requires b, which a caller of the target may leave out",
    ),
    ("keyword", "lambda a: None", HookType.BEFORE, "keyword k"),
    ("keyword", "lambda a, *, k: None", HookType.BEFORE, "requires the keyword k"),
    ("many", "lambda a: None", HookType.BEFORE, r"\*args"),
    ("open", "lambda a: None", HookType.BEFORE, r"\*\*kwargs"),
    ("C.method", "lambda self: None", HookType.BEFORE, "no place for a"),
    ("C.static", "lambda cls, a: None", HookType.BEFORE, "requires a"),
    ("C.class_", "lambda a: None", HookType.BEFORE, "no place for a"),
    ("C.prop", "lambda result: None", HookType.AFTER, "no place for self"),
]

FITTING = [
    ("two", "lambda *args, **kwargs: None", HookType.BEFORE),
    ("two", "lambda a, b: None", HookType.BEFORE),
    ("two", "lambda a, b, c=1, *, d=2: None", HookType.BEFORE),
    ("two", "lambda result, a, b: None", HookType.AFTER),
    ("two", "lambda original, *args: original(*args)", HookType.AROUND),
    ("two", "lambda x, y: x", HookType.REPLACE),
    ("optional", "lambda a, b=1: None", HookType.BEFORE),
    ("keyword", "lambda a, *, k=1: None", HookType.BEFORE),
    ("keyword", "lambda a, k=1: None", HookType.BEFORE),
    ("many", "lambda *args: None", HookType.BEFORE),
    ("open", "lambda a, **kwargs: None", HookType.BEFORE),
    ("C.method", "lambda self, a: None", HookType.BEFORE),
    ("C.static", "lambda a: None", HookType.BEFORE),
    ("C.class_", "lambda cls, a: None", HookType.BEFORE),
    ("C.prop", "lambda result, self: None", HookType.AFTER),
]


@pytest.mark.parametrize(("target", "hook", "type_", "why"), REFUSED)
@pytest.mark.parametrize("loaded", [False, True])
def test_a_hook_that_cannot_take_the_targets_arguments_is_refused(host, target, hook, type_, why, loaded):
    host.write(sig=SIGNATURES)
    if loaded:
        host.load("sig")
    HookRegistry.register(f"sig:{target}", eval(hook), type_)
    if not loaded:
        HookRegistry.apply_hooks()
    with pytest.raises(HookSignatureError, match=why):
        HookRegistry.apply_hooks() if loaded else host.load("sig")


@pytest.mark.parametrize(("target", "hook", "type_"), FITTING)
def test_a_hook_that_can_is_not(host, target, hook, type_):
    host.write(sig=SIGNATURES)
    HookRegistry.register(f"sig:{target}", eval(hook), type_)
    HookRegistry.apply_hooks()
    host.load("sig")
    assert HookRegistry.is_applied(f"sig:{target}")


def test_a_hook_that_names_an_argument_differently_is_warned_about(host, caplog):
    host.write(sig=SIGNATURES)
    host.load("sig")
    HookRegistry.register("sig:two", lambda a, other: None, HookType.BEFORE)
    with caplog.at_level(logging.WARNING):
        HookRegistry.apply_hooks()
    assert "by name: b" in caplog.text
    assert HookRegistry.is_applied("sig:two")


def test_one_refused_hook_leaves_the_others_in_force(host):
    host.write(sig=SIGNATURES)
    HookRegistry.register("sig:two", lambda a: None, HookType.BEFORE, required=False)
    HookRegistry.register("sig:two", lambda result, a, b: [a, b])
    HookRegistry.apply_hooks()
    assert host.load("sig").two(1, 2) == [1, 2]
    assert [row["state"] for row in HookRegistry.report()] == ["failed", "applied"]
    assert not HookRegistry.is_applied("sig:two")


@pytest.mark.parametrize("value", [(1, 2), [1], "ab", {"a": 1}, (3,), ((1, 2), None)])
def test_a_before_hook_that_returns_something_else_is_named(host, value):
    host.write(sig=SIGNATURES)
    with plugin_source(ORIGIN):
        HookRegistry.register("sig:two", lambda a, b: value, HookType.BEFORE)
    HookRegistry.apply_hooks()
    with pytest.raises(HookError, match=r"\(args, kwargs\)") as caught:
        host.load("sig").two(1, 2)
    assert caught.value.plugin == ORIGIN


def test_return_none(host):
    host.write(sig=SIGNATURES)
    HookRegistry.register("sig:two", lambda result, a, b: RETURN_NONE)
    HookRegistry.apply_hooks()
    assert host.load("sig").two(1, 2) is None
    HookRegistry.register("sig:two", lambda result, a, b: [result])
    assert host.load("sig").two(1, 2) == [None]
    assert repr(RETURN_NONE) == "RETURN_NONE"


def test_two_replacements_the_last_wins_with_a_warning_naming_both(host, caplog):
    host.write(sig=SIGNATURES)
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
    host.write(sig=SIGNATURES)
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


def test_a_replacement_that_does_not_fit_is_refused_each_time(host):
    host.write(sig=SIGNATURES)
    host.load("sig")
    HookRegistry.apply_hooks()

    def takes_nothing():
        return None

    for _ in range(2):
        with pytest.raises(HookSignatureError):
            HookRegistry.register("sig:two", takes_nothing, HookType.REPLACE)


def test_report_rows(host):
    host.write(sig=SIGNATURES)
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


def test_report_as_text(host):
    from sglang_platform.core.hooks.report import as_text

    host.write(sig=SIGNATURES)
    HookRegistry.register("sig:absent", anything, required=False, source=PluginOrigin("p"))
    HookRegistry.apply_hooks()
    text = as_text(HookRegistry.report())
    assert "failed" in text
    assert "sig:absent" in text
    assert "[p]" in text
    assert "has no 'absent'" in text


def test_withdrawing_a_plugin_restores_what_it_changed_and_only_that(host):
    host.write(sig=SIGNATURES, user="from sig import two")
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
    host.write(sig=SIGNATURES)
    HookRegistry.register("sig:two", anything)
    HookRegistry.register("sig:two", anything, HookType.BEFORE)
    assert not HookRegistry.unregister("sig:two", anything, HookType.AROUND)
    assert HookRegistry.unregister("sig.two", anything, HookType.BEFORE)
    assert [row["type"] for row in HookRegistry.report()] == ["after"]
    assert HookRegistry.unregister("sig:two", anything)
    assert not HookRegistry.unregister("sig:two", anything)
