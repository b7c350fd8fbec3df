"""A hook that its target cannot take is refused, and what it may return is checked."""

from __future__ import annotations

import logging

import pytest

from sglang_platform.core.errors import HookError, HookSignatureError, PluginOrigin
from sglang_platform.core.hooks.registry import (
    RETURN_NONE,
    HookRegistry,
    HookType,
    plugin_source,
)

ORIGIN = PluginOrigin("my_plugin", "my-dist", "1.2")


def anything(*args, **kwargs):
    return None


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
    host.bring("sig")
    if loaded:
        host.load("sig")
    HookRegistry.register(f"sig:{target}", eval(hook), type_)
    if not loaded:
        HookRegistry.apply_hooks()
    with pytest.raises(HookSignatureError, match=why):
        HookRegistry.apply_hooks() if loaded else host.load("sig")


@pytest.mark.parametrize(("target", "hook", "type_"), FITTING)
def test_a_hook_that_can_is_not(host, target, hook, type_):
    host.bring("sig")
    HookRegistry.register(f"sig:{target}", eval(hook), type_)
    HookRegistry.apply_hooks()
    host.load("sig")
    assert HookRegistry.is_applied(f"sig:{target}")


def test_a_hook_that_names_an_argument_differently_is_warned_about(host, caplog):
    host.bring("sig")
    host.load("sig")
    HookRegistry.register("sig:two", lambda a, other: None, HookType.BEFORE)
    with caplog.at_level(logging.WARNING):
        HookRegistry.apply_hooks()
    assert "by name: b" in caplog.text
    assert HookRegistry.is_applied("sig:two")


def test_a_first_argument_by_position_only_hides_no_name(host, caplog):
    host.bring("sig")
    host.load("sig")
    HookRegistry.register("sig:two", lambda result, /, a, b: None, HookType.AFTER)
    with caplog.at_level(logging.WARNING):
        HookRegistry.apply_hooks()
    assert "by name" not in caplog.text
    assert HookRegistry.is_applied("sig:two")


def test_one_refused_hook_leaves_the_others_in_force(host):
    host.bring("sig")
    HookRegistry.register("sig:two", lambda a: None, HookType.BEFORE, required=False)
    HookRegistry.register("sig:two", lambda result, a, b: [a, b])
    HookRegistry.apply_hooks()
    assert host.load("sig").two(1, 2) == [1, 2]
    assert [row["state"] for row in HookRegistry.report()] == ["failed", "applied"]
    assert not HookRegistry.is_applied("sig:two")


@pytest.mark.parametrize("value", [(1, 2), [1], "ab", {"a": 1}, (3,), ((1, 2), None)])
def test_a_before_hook_that_returns_something_else_is_named(host, value):
    host.bring("sig")
    with plugin_source(ORIGIN):
        HookRegistry.register("sig:two", lambda a, b: value, HookType.BEFORE)
    HookRegistry.apply_hooks()
    with pytest.raises(HookError, match=r"\(args, kwargs\)") as caught:
        host.load("sig").two(1, 2)
    assert caught.value.plugin == ORIGIN


def test_return_none(host):
    host.bring("sig")
    HookRegistry.register("sig:two", lambda result, a, b: RETURN_NONE)
    HookRegistry.apply_hooks()
    assert host.load("sig").two(1, 2) is None
    HookRegistry.register("sig:two", lambda result, a, b: [result])
    assert host.load("sig").two(1, 2) == [None]
    assert repr(RETURN_NONE) == "RETURN_NONE"
