"""Random orders of everything that one can do to hooks: each takes effect at once, and leaves nothing behind."""

from __future__ import annotations

import importlib
import sys
import textwrap

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onion_model import nested

from sglang_platform.core.errors import PluginOrigin
from sglang_platform.core.hooks.registry import HookRegistry, HookType

RELAXED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]

HISTORY = {
    "h_base": """
        def f(x): return [*x, "f"]
        class Parent:
            def m(self, x): return [*x, "m"]
        class Child(Parent):
            @classmethod
            def c(cls, x): return [*x, "c"]
            @staticmethod
            def s(x): return [*x, "s"]
            @property
            def p(self): return ["p"]
            borrowed = f
        class Klass:
            def m(self, x): return [*x, "km"]
            def n(self, x): return [*x, "kn"]
        TABLE = {"f": f}
        """,
    "h_pkg": "from h_base import f, Klass\n",
    "h_user": "from h_pkg import f as g, Klass\nfrom h_base import Child\nclass Sub(Klass): pass\n",
}
TARGETS = {
    "h_base:f": "f",
    "h_pkg.f": "f",
    "h_base.Parent.m": "Parent.m",
    "h_base:Child.m": "Child.m",
    "h_user:Child.c": "Child.c",
    "h_base:Child.c": "Child.c",
    "h_base:Child.s": "Child.s",
    "h_base:Child.p": "Child.p",
    "h_base:Child.borrowed": "Child.borrowed",
    "h_base:Klass.m": "Klass.m",
    "h_pkg:Klass.n": "Klass.n",
}
PLUGINS = [PluginOrigin("one"), PluginOrigin("two")]

registering = st.tuples(
    st.just("register"),
    st.sampled_from(sorted(TARGETS)),
    st.sampled_from(list(HookType)),
    st.sampled_from(PLUGINS),
)
on_the_class = st.tuples(
    st.just("register"),
    st.sampled_from(["h_base:Klass.m", "h_pkg:Klass.n"]),
    st.sampled_from(list(HookType)),
    st.sampled_from(PLUGINS),
)
replacing = st.tuples(st.just("replace"), st.sampled_from(["h_base:Klass", "h_pkg:Klass"]), st.booleans())
others = st.one_of(
    st.tuples(st.just("unregister"), st.integers(0, 5)),
    st.tuples(st.just("withdraw"), st.sampled_from(PLUGINS)),
    st.tuples(st.just("apply")),
    st.tuples(st.just("load"), st.sampled_from(sorted(HISTORY))),
    st.tuples(st.just("reset")),
)
operations = st.lists(st.one_of(registering, others), min_size=1, max_size=14)
operations_on_classes = st.lists(st.one_of(on_the_class, replacing, others), min_size=1, max_size=8)


def tagging(type_, tag):
    """A hook that leaves its tag. The last argument is `x`; a property has none."""

    def before(*args, **kwargs):
        return ((*args[:-1], [*args[-1], tag]), kwargs) if isinstance(args[-1], list) else None

    def after(result, *args, **kwargs):
        return [*result, tag]

    def around(original, *args, **kwargs):
        return [*original(*args, **kwargs), tag]

    def replace(*args, **kwargs):
        return [tag]

    return {"before": before, "after": after, "around": around, "replace": replace}[type_.value]


class History:
    """What must hold after any operations, computed from scratch each time."""

    def __init__(self):
        self.hooks = []  # (target, type, hook, origin)
        self.armed = False
        self.count = 0
        self.own_methods = {}  # of each replacement: does it define `m`?

    def perform(self, operation, *arguments):
        getattr(self, operation)(*arguments)

    def register(self, target, type_, origin):
        self.count += 1
        hook = tagging(type_, f"{type_.value}{self.count}")
        self.hooks.append((target, type_, hook, origin))
        HookRegistry.register(target, hook, type_, source=origin)

    def replace(self, target, own_method):
        original = importlib.import_module("h_base").Klass.__mro__[-2]
        self.count += 1
        tag = f"R{self.count}"

        def m(self, x):
            return [*x, tag]

        names = {"m": m} if own_method else {}
        hook = type("Replacement", (original,), {**names, "own_tag": tag, "__module__": f"plugin_{tag}"})
        self.hooks.append((target, HookType.REPLACE, hook, None))
        HookRegistry.register(target, hook, HookType.REPLACE)
        self.own_methods[hook] = own_method

    def unregister(self, index):
        if index < len(self.hooks):
            target, type_, hook, _ = self.hooks.pop(index)
            assert HookRegistry.unregister(target, hook, type_)

    def withdraw(self, origin):
        left = [one for one in self.hooks if one[3] != origin]
        assert HookRegistry.withdraw(origin) == len(self.hooks) - len(left)
        self.hooks = left

    def apply(self):
        self.armed = True
        HookRegistry.apply_hooks()

    def load(self, name):
        importlib.import_module(name)

    def reset(self):
        self.hooks, self.armed = [], False
        HookRegistry.reset()

    def in_force(self):
        return [
            one
            for one in self.hooks
            if self.armed and one[0].replace(":", ".").partition(".")[0] in sys.modules
        ]

    def expected(self, place, base, *arguments):
        """What calling the target gives; `base` is what it gives without hooks of its own."""
        hooks = [(type_, hook) for target, type_, hook, _ in self.in_force() if TARGETS.get(target) == place]
        return nested(base, sorted(hooks, key=lambda one: one[0] is not HookType.REPLACE))(*arguments)

    def check(self):
        base = sys.modules.get("h_base")
        if base is None:
            return
        child, klass = base.Child(), base.Klass()

        def f(x):
            return self.expected("f", lambda x: [*x, "f"], x)

        def parent(_, x):
            return self.expected("Parent.m", lambda _, x: [*x, "m"], None, x)

        assert base.f([]) == f([])
        assert base.TABLE["f"] is base.f
        assert base.Parent().m([]) == parent(None, [])
        assert child.m([]) == self.expected("Child.m", parent, child, [])
        assert child.c([]) == self.expected("Child.c", lambda cls, x: [*x, "c"], base.Child, [])
        assert base.Child.s([]) == self.expected("Child.s", lambda x: [*x, "s"], [])
        assert child.p == self.expected("Child.p", lambda self: ["p"], child)
        assert base.Child.borrowed([]) == self.expected("Child.borrowed", f, [])
        replacements = [hook for _, _, hook, _ in self.in_force() if isinstance(hook, type)]
        own = "km"
        if replacements:
            assert base.Klass is replacements[-1]
            own = base.Klass.own_tag if self.own_methods[base.Klass] else "km"
        assert klass.m([]) == self.expected("Klass.m", lambda _, x: [*x, own], None, [])
        assert klass.n([]) == self.expected("Klass.n", lambda _, x: [*x, "kn"], None, [])
        user = sys.modules.get("h_user")
        if user is not None:
            assert user.g is sys.modules["h_pkg"].f is base.f
            assert user.Klass is base.Klass
            assert issubclass(user.Sub, user.Klass)
            assert user.Sub().n([]) == klass.n([])


def places(base):
    """Every object that a hook may have replaced, by place."""
    found = {name: vars(base)[name] for name in ("f", "Klass", "Parent", "Child")}
    for klass in (base.Parent, base.Child, base.Klass):
        found |= {f"{klass.__name__}.{name}": value for name, value in vars(klass).items() if name[0] != "_"}
    found["TABLE"] = base.TABLE["f"]
    return found


@pytest.fixture(scope="module")
def history_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("history")
    for name, source in HISTORY.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(source))
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    yield folder
    sys.path.remove(str(folder))


def run(history, loaded):
    HookRegistry.reset()
    for name in HISTORY:
        sys.modules.pop(name, None)
    state = History()
    before = None
    if loaded:
        importlib.import_module("h_user")
        before = places(sys.modules["h_base"])
    for operation in history:
        state.perform(*operation)
        state.check()
    HookRegistry.reset()
    after = places(importlib.import_module("h_base"))
    if before is not None:
        assert after.keys() == before.keys()
        assert [name for name in after if after[name] is not before[name]] == []
    for name, value in after.items():
        assert isinstance(value, classmethod | staticmethod) or not hasattr(value, "__wrapped__"), name
    assert after["f"] is after["TABLE"] is after["Child.borrowed"]
    assert HookRegistry.report() == []


@pytest.mark.sample(2)
@pytest.mark.parametrize("loaded", [False, True])
@settings(max_examples=150, deadline=None, suppress_health_check=RELAXED)
@given(history=operations)
def test_any_history_takes_effect_and_is_undone(history_folder, history, loaded):
    run(history, loaded)


@pytest.mark.sample(2)
@pytest.mark.parametrize("loaded", [False, True])
@settings(max_examples=50, deadline=None, suppress_health_check=RELAXED)
@given(history=operations_on_classes)
def test_any_history_with_replaced_classes(history_folder, history, loaded):
    run(history, loaded)
