"""References that `from X import Y` bindings are not: reached, or reported by name."""

from __future__ import annotations

import functools
import sys

import pytest

from sglang_platform.core.hooks.registry import HookRegistry, HookType

BASE = "def f(x=0): return x + 1\n"
HOLDERS = """
import functools
from collections import deque
from base import f

TABLE = {"f": f, "other": print}
NESTED = {"deep": [{"f": f}]}
LIST = [print, f, f]
QUEUE = deque([f])
SET = {f}
PART = functools.partial(f, 10)
GIVEN = functools.partial(map, f)
def default(x, call=f): return call(x)
def keyword(x, *, call=f): return call(x)
class Config:
    call = staticmethod(print)
    table = {"f": f}
    alias = f
    def method(self, x, call=f): return call(x)
class Registry:
    def __init__(self): self.entries = {"f": f}; self.direct = f
registry = Registry()
PAIR = (print, f)
def close():
    g = f
    return lambda x: g(x)
CLOSED = close()
KEYED = {f: 1}
"""


def read(holders):
    """Every holder's function, by name."""
    return {
        "TABLE": holders.TABLE["f"],
        "NESTED": holders.NESTED["deep"][0]["f"],
        "LIST": holders.LIST[1],
        "LIST, again": holders.LIST[2],
        "PART": holders.PART.func,
        "default": holders.default.__defaults__[0],
        "keyword": holders.keyword.__kwdefaults__["call"],
        "Config.table": holders.Config.table["f"],
        "Config.alias": vars(holders.Config)["alias"],
        "Config.method": holders.Config.method.__defaults__[0],
        "entries": holders.registry.entries["f"],
        "direct": holders.registry.direct,
        "binding": holders.f,
    }


@pytest.mark.sample(2)
@pytest.mark.parametrize("lazy", [False, True])
def test_holders_with_a_name_are_reached_and_given_back(host, lazy):
    """Lazily they are met by a module that runs within the target's own import."""
    source = BASE + ("import holders\n" if lazy else "")
    host.write(base=source, holders=HOLDERS)
    HookRegistry.register("base:f", lambda result, *args: result + 100)
    if lazy:
        HookRegistry.apply_hooks()
        base = host.load("base")
    holders = host.load("holders")
    if not lazy:
        base = host.load("base")
        original = base.f
        HookRegistry.apply_hooks()
    hooked = base.f
    original = hooked.__wrapped__
    assert {name for name, value in read(holders).items() if value is not hooked} == set()
    assert (holders.PART(), holders.default(1), holders.keyword(1), holders.Config().method(1)) == (
        111,
        102,
        102,
        102,
    )
    HookRegistry.reset()
    assert {name for name, value in read(holders).items() if value is not original} == set()


def test_holders_that_cannot_be_changed_are_reported_by_name(host):
    host.write(base=BASE, holders=HOLDERS)
    host.load("holders")
    HookRegistry.register("base:f", lambda result, *args: result + 100)
    HookRegistry.apply_hooks()
    (row,) = HookRegistry.report()
    assert row["state"] == "applied"
    text = "\n".join(row["unreached"])
    assert "holders.PAIR" in text
    assert "holders.KEYED (as a key)" in text
    assert "holders.close.<locals>.<lambda> (a closure)" in text
    assert "holders.QUEUE (a deque)" in text
    assert "holders.SET (a set)" in text
    assert "holders.GIVEN (a tuple)" in text
    assert len(row["unreached"]) == 6


@pytest.mark.host
def test_sglangs_registry_of_attention_backends_is_reached(host):
    """A decorator of the target's own module fills it, before the hook can be applied."""
    import sglang  # noqa: F401

    HookRegistry.register(
        "sglang.srt.layers.attention.attention_registry:create_triton_backend",
        lambda original, runner: "hooked",
        HookType.AROUND,
    )
    HookRegistry.apply_hooks()
    from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS

    assert ATTENTION_BACKENDS["triton"](None) == "hooked"


def test_bound_methods_are_reported(host):
    host.write(bound="class C:\n    def run(self): return 1\none = C()\nRUN = one.run\n")
    bound = host.load("bound")
    HookRegistry.register("bound:C.run", lambda result, self: 2)
    HookRegistry.apply_hooks()
    assert bound.one.run() == 2
    assert "bound.RUN (a bound method of a C object)" in HookRegistry.report()[0]["unreached"][0]


def test_registries_filled_after_the_hook_are_given_back(host):
    host.write(base=BASE, holders=HOLDERS)
    base = host.load("base")
    original = base.f
    HookRegistry.register("base:f", lambda result, *args: result + 100)
    HookRegistry.apply_hooks()
    holders = host.load("holders")
    assert {value is base.f for value in read(holders).values()} == {True}
    HookRegistry.reset()
    assert {name for name, value in read(holders).items() if value is not original} == set()
    assert holders.CLOSED(1) == 2, "out of reach, the wrapper is a plain passage"


def test_a_holder_without_a_name_is_left_alone(host):
    """It may be somebody's copy of the original, kept to call it."""
    host.write(base=BASE)
    base = host.load("base")
    kept = {"original": base.f}
    HookRegistry.register("base:f", lambda result, *args: result + 100)
    HookRegistry.apply_hooks()
    assert (base.f(), kept["original"]()) == (101, 1)


def test_a_replacement_that_saved_the_original_can_call_it(host):
    """Patching the plugin's own reference too would make it call itself for ever."""
    host.write(
        base=BASE,
        user="from base import f",
        plugin="""
        from base import f
        SAVED = {"f": f}
        def mine(x=0): return f(x) * 10 + SAVED["f"](x)
        """,
    )
    user, plugin = host.load("user"), host.load("plugin")
    HookRegistry.register("base:f", plugin.mine, HookType.REPLACE)
    HookRegistry.apply_hooks()
    assert user.f(1) == 22
    assert any("plugin.f (kept" in name for name in HookRegistry.report()[0]["unreached"])


def test_a_replacement_that_comes_later_can_call_the_original_too(host):
    host.write(base=BASE, plugin="from base import f\ndef mine(x=0): return f(x) * 10\n")
    HookRegistry.register("base:f", lambda result, *args: result + 100)
    HookRegistry.apply_hooks()
    base = host.load("base")
    original = base.f.__wrapped__
    plugin = host.load("plugin")
    HookRegistry.register("base:f", plugin.mine, HookType.REPLACE)
    assert base.f(1) == 120
    HookRegistry.reset()
    assert base.f is plugin.f is original


def test_decorators_that_register_in_another_module(host):
    host.write(
        registry="TABLE = {}\ndef register(f):\n    TABLE[f.__name__] = f\n    return f\n",
        ops="from registry import register\n@register\ndef op(): return 1\n",
    )
    HookRegistry.register("ops:op", lambda result: result + 1)
    HookRegistry.apply_hooks()
    host.load("ops")
    assert host.load("registry").TABLE["op"]() == 2


def test_an_unreferenced_target_costs_no_pass_over_the_heap(host, monkeypatch):
    host.write(
        base=BASE, user="from base import f", kinds="class C:\n    @staticmethod\n    def s(): return 1\n"
    )
    host.load("user")
    passes = []
    import gc

    real = gc.get_referrers
    monkeypatch.setattr(gc, "get_referrers", lambda *objects: passes.append(objects) or real(*objects))
    HookRegistry.register("base:f", lambda original, *args: original(*args), HookType.AROUND)
    HookRegistry.register("base:f", lambda *args: None, HookType.BEFORE)
    HookRegistry.register("kinds:C.s", lambda result: 2)
    HookRegistry.apply_hooks()
    host.load("kinds")
    assert passes == []
    HookRegistry.reset()
    assert passes == []


def test_lazily_loading_modules_are_not_woken_by_the_sweep(host):
    import importlib.util

    host.write(base=BASE, sleepy="raise RuntimeError('woken')")
    host.load("base")
    spec = importlib.util.find_spec("sleepy")
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules["sleepy"] = module
    spec.loader.exec_module(module)
    try:
        HookRegistry.register("base:f", lambda result, *args: result)
        HookRegistry.apply_hooks()
        assert HookRegistry.is_applied("base:f")
    finally:
        del sys.modules["sleepy"]


def test_partials_of_partials_keep_their_arguments(host):
    host.write(
        base="def f(a, b, c=0): return (a, b, c)\n",
        holders="import functools\nfrom base import f\nP = functools.partial(functools.partial(f, 1), c=5)\n",
    )
    holders = host.load("holders")
    assert isinstance(holders.P, functools.partial)
    HookRegistry.register("base:f", lambda result, *args, **kwargs: [*result, "hooked"])
    HookRegistry.apply_hooks()
    assert holders.P(2) == [1, 2, 5, "hooked"]
    HookRegistry.reset()
    assert holders.P(2) == (1, 2, 5)
