"""Random stacks of hooks against a plain model, and random orders of everything that one can do to hooks."""

from __future__ import annotations

import asyncio
import importlib
import sys
import textwrap

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sglang_platform.core.errors import PluginOrigin
from sglang_platform.core.hooks.registry import RETURN_NONE, HookRegistry, HookType

RELAXED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]

STACK_HOST = """
class Stop(Exception): pass
log = []
def body(kind, x, kwargs):
    log.append((kind, x, dict(kwargs)))
    return [kind, x, sorted(kwargs.items())]
def plain(x, *args, **kwargs): return body("plain", x, kwargs)
async def coroutine(x, *args, **kwargs): return body("coroutine", x, kwargs)
def generator(x, *args, **kwargs):
    got = yield body("generator", x, kwargs)
    return ["end", got]
async def async_generator(x, *args, **kwargs):
    yield body("async generator", x, kwargs)
class Class:
    def method(self, x, *args, **kwargs): return body("method", x, kwargs)
    @classmethod
    def class_method(cls, x, *args, **kwargs): return body("class method", x, kwargs)
    @staticmethod
    def static(x, *args, **kwargs): return body("static", x, kwargs)
"""

ACTIONS = {
    HookType.BEFORE: ["watch", "positional", "keyword", "to keyword", "stop"],
    HookType.AFTER: ["watch", "change", "none", "stop"],
    HookType.AROUND: ["watch", "change", "skip", "twice", "stop", "add keyword"],
    HookType.REPLACE: ["replace"],
}
hook_plans = st.sampled_from(list(HookType)).flatmap(
    lambda type_: st.tuples(st.just(type_), st.sampled_from(ACTIONS[type_]), st.integers(-1, 1))
)


@pytest.fixture
def stack_host(host):
    host.write(stack_host=STACK_HOST)
    return host.load("stack_host")


def make_hook(module, index, type_, action):
    """A hook that logs what it saw, and acts. `x` is the last positional argument."""

    def note(what, args, kwargs):
        module.log.append((index, what, args[-1], dict(kwargs)))
        if action == "stop":
            raise module.Stop(index)

    def before(*args, **kwargs):
        note("before", args, kwargs)
        if action == "positional":
            return [*args[:-1], args[-1] + 1], kwargs
        if action == "keyword":
            return args, {**kwargs, f"k{index}": index}
        if action == "to keyword":
            kwargs.clear()
            return args, {}
        return None

    def after(result, *args, **kwargs):
        note("after", args, kwargs)
        if action == "change":
            return [index, result]
        return RETURN_NONE if action == "none" else None

    def around(original, *args, **kwargs):
        note("around", args, kwargs)
        if action == "skip":
            return ["skipped", index]
        if action == "twice":
            original(*args, **kwargs)
        if action == "add keyword":
            kwargs[f"a{index}"] = index
        result = original(*args, **kwargs)
        return [index, result] if action == "change" else result

    def replace(*args, **kwargs):
        note("replace", args, kwargs)
        return ["replaced", index, args[-1], sorted(kwargs.items())]

    return {"before": before, "after": after, "around": around, "replace": replace}[type_.value]


def nested(base, hooks):
    """The model: one plain wrapper per hook, as the onion is defined."""
    for type_, hook in hooks:
        base = layer(base, type_, hook)
    return base


def layer(inner, type_, hook):
    def call(*args, **kwargs):
        if type_ is HookType.REPLACE:
            return hook(*args, **kwargs)
        if type_ is HookType.AROUND:
            return hook(inner, *args, **kwargs)
        if type_ is HookType.BEFORE:
            changed = hook(*args, **kwargs)
            if changed is not None:
                args, kwargs = changed
            return inner(*args, **kwargs)
        result = inner(*args, **kwargs)
        changed = hook(result, *args, **kwargs)
        if changed is None:
            return result
        return None if changed is RETURN_NONE else changed

    return call


def stacked(plans, module):
    """The hooks of a plan as they must nest: REPLACE first, then by order, then as registered."""
    made = [(type_, make_hook(module, i, type_, action), order) for i, (type_, action, order) in enumerate(plans)]
    return made, [
        one[:2] for one in sorted(made, key=lambda one: (one[0] is not HookType.REPLACE, one[2]))
    ]


def outcome(module, call):
    module.log.clear()
    try:
        result = call()
    except module.Stop as stop:
        result = ("stopped", *stop.args)
    return result, list(module.log)


@settings(max_examples=120, deadline=None, suppress_health_check=RELAXED)
@given(
    plans=st.lists(hook_plans, max_size=7),
    target=st.sampled_from(["plain", "Class.method", "Class.class_method", "Class.static"]),
    late=st.booleans(),
    kwargs=st.dictionaries(st.sampled_from("yz"), st.integers(0, 3)),
)
def test_stacks_on_functions_and_methods_agree_with_the_model(stack_host, plans, target, late, kwargs):
    module = stack_host
    owner = module.Class() if "." in target else module
    name = target.rpartition(".")[2]
    first = {"method": (owner,), "class_method": (module.Class,)}.get(name, ())
    raw = vars(module.Class)[name] if "." in target else vars(module)[name]
    made, order = stacked(plans, module)
    expected = outcome(module, lambda: nested(getattr(raw, "__func__", raw), order)(*first, 1, **kwargs))
    HookRegistry.reset()
    if late:
        HookRegistry.apply_hooks()
    for type_, hook, rank in made:
        HookRegistry.register(f"stack_host:{target}", hook, type_, order=rank)
    HookRegistry.apply_hooks()
    try:
        assert outcome(module, lambda: getattr(owner, name)(1, **kwargs)) == expected
    finally:
        HookRegistry.reset()
    assert (vars(module.Class) if "." in target else vars(module))[name] is raw


def awaited(hook):
    async def run(*args, **kwargs):
        return hook(*args, **kwargs)

    return run


def awaited_around(module, index, action):
    async def around(original, *args, **kwargs):
        module.log.append((index, "around", args[-1], dict(kwargs)))
        if action == "stop":
            raise module.Stop(index)
        if action == "skip":
            return ["skipped", index]
        if action == "twice":
            await original(*args, **kwargs)
        if action == "add keyword":
            kwargs[f"a{index}"] = index
        result = await original(*args, **kwargs)
        return [index, result] if action == "change" else result

    return around


@settings(max_examples=80, deadline=None, suppress_health_check=RELAXED)
@given(plans=st.lists(st.tuples(hook_plans, st.booleans()), max_size=6))
def test_stacks_on_a_coroutine_function_agree_with_the_model(stack_host, plans):
    """The same log as the model on plain functions, whichever of the hooks are async."""
    module = stack_host
    made, order = stacked([plan for plan, _ in plans], module)
    model = nested(lambda x, **kwargs: module.body("coroutine", x, kwargs), order)
    expected = outcome(module, lambda: model(1, z=2))
    HookRegistry.reset()
    for i, (((type_, action, rank), is_async), (_, hook, _)) in enumerate(zip(plans, made, strict=True)):
        if type_ is HookType.AROUND:
            hook = awaited_around(module, i, action)
        elif is_async:
            hook = awaited(hook)
        HookRegistry.register("stack_host:coroutine", hook, type_, order=rank)
    HookRegistry.apply_hooks()
    try:
        assert outcome(module, lambda: asyncio.run(module.coroutine(1, z=2))) == expected
    finally:
        HookRegistry.reset()


def wrapped_generator(module, i, action):
    def around(original, *args, **kwargs):
        module.log.append((i, "around", args[-1], dict(kwargs)))
        got = yield from original(*args, **kwargs)
        return [i, got] if action == "change" else got

    return around


@settings(max_examples=60, deadline=None, suppress_health_check=RELAXED)
@given(
    plans=st.lists(
        st.one_of(
            st.tuples(st.just(HookType.BEFORE), st.sampled_from(["watch", "positional", "keyword"]), st.just(0)),
            st.tuples(st.just(HookType.AROUND), st.sampled_from(["watch", "change"]), st.just(0)),
        ),
        max_size=6,
    ),
    generators=st.booleans(),
)
def test_stacks_on_a_generator_function_agree_with_the_model(stack_host, plans, generators):
    module = stack_host
    hooks = [
        (
            type_,
            wrapped_generator(module, i, action)
            if type_ is HookType.AROUND and generators
            else make_hook(module, i, type_, "watch" if type_ is HookType.AROUND else action),
        )
        for i, (type_, action, _) in enumerate(plans)
    ]

    def run(function):
        running = function(1, z=2)
        items = [next(running)]
        with pytest.raises(StopIteration) as stop:
            running.send("sent")
        return items, stop.value.value

    original = module.generator
    expected = outcome(module, lambda: run(nested(original, hooks)))
    HookRegistry.reset()
    for type_, hook in hooks:
        HookRegistry.register("stack_host:generator", hook, type_)
    HookRegistry.apply_hooks()
    try:
        result, log = outcome(module, lambda: run(module.generator))
    finally:
        HookRegistry.reset()
    assert result == expected[0]
    assert sorted(map(str, log)) == sorted(map(str, expected[1]))


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

operations = st.lists(
    st.one_of(
        st.tuples(
            st.just("register"),
            st.sampled_from(sorted(TARGETS)),
            st.sampled_from(list(HookType)),
            st.sampled_from(PLUGINS),
        ),
        st.tuples(st.just("replace"), st.sampled_from(["h_base:Klass", "h_pkg:Klass"]), st.booleans()),
        st.tuples(st.just("unregister"), st.integers(0, 9)),
        st.tuples(st.just("withdraw"), st.sampled_from(PLUGINS)),
        st.tuples(st.just("apply")),
        st.tuples(st.just("load"), st.sampled_from(sorted(HISTORY))),
        st.tuples(st.just("reset")),
    ),
    min_size=1,
    max_size=14,
)


def tagging(type_, tag):
    """A hook that leaves its tag; takes any self before `x`, and no `x` on a property."""
    if type_ is HookType.BEFORE:
        return lambda *args: ((*args[:-1], [*args[-1], tag]), {}) if isinstance(args[-1], list) else None
    if type_ is HookType.AFTER:
        return lambda result, *args: [*result, tag]
    if type_ is HookType.AROUND:
        return lambda original, *args: [*original(*args), tag]
    return lambda *args: [tag]


class History:
    """What must hold after any operations, computed from scratch each time."""

    def __init__(self):
        self.hooks = []  # (target, type, hook, tag, origin)
        self.armed = False
        self.count = 0

    def perform(self, operation, *arguments):
        getattr(self, operation)(*arguments)

    def register(self, target, type_, origin):
        self.count += 1
        hook = tagging(type_, f"{type_.value}{self.count}")
        self.hooks.append((target, type_, hook, origin))
        HookRegistry.register(target, hook, type_, source=origin)

    def replace(self, target, own_method):
        self.count += 1
        base = importlib.import_module("h_base")
        original = next((k for k in base.Klass.__mro__ if "km" in repr(k.__dict__.get("marker", "km"))), base.Klass)
        original = base.Klass.__mro__[-2]
        tag = f"R{self.count}"
        names = {"m": lambda self, x: [*x, tag]} if own_method else {}
        hook = type("Replacement", (original,), {**names, "__module__": f"plugin_{tag}"})
        self.hooks.append((target, HookType.REPLACE, hook, None))
        HookRegistry.register(target, hook, HookType.REPLACE)

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

    def replacement(self):
        classes = [
            (target, hook)
            for target, _, hook, _ in self.hooks
            if isinstance(hook, type) and (target.partition(":")[0] in sys.modules)
        ]
        return classes[-1][1] if classes and self.armed else None

    def expected(self, place, base, *first):
        """What calling the target gives; `base` is what it gives without hooks of its own."""
        hooks = [
            (type_, hook)
            for target, type_, hook, _ in self.hooks
            if TARGETS.get(target) == place and target.replace(".", ":", 1).partition(":")[0] in sys.modules
        ]
        hooks.sort(key=lambda one: one[0] is not HookType.REPLACE)
        return nested(base, hooks if self.armed else [])(*first)

    def check(self):
        if "h_base" not in sys.modules:
            return
        base = sys.modules["h_base"]
        child = base.Child()

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
        replacement = self.replacement()
        if replacement is not None:
            assert base.Klass is replacement
        own = replacement and vars(replacement).get("m")
        if not hasattr(own, "__wrapped__"):
            own = getattr(own, "__wrapped__", own)
        tag_of = getattr(getattr(own, "__wrapped__", own), "__closure__", None)
        unhooked_m = (lambda _, x: [*x, tag_of[0].cell_contents]) if tag_of else (lambda _, x: [*x, "km"])
        assert base.Klass().m([]) == self.expected("Klass.m", unhooked_m, None, [])
        assert base.Klass().n([]) == self.expected("Klass.n", lambda _, x: [*x, "kn"], None, [])
        if "h_user" in sys.modules:
            user = sys.modules["h_user"]
            assert user.g is sys.modules["h_pkg"].f is base.f
            assert user.Klass is base.Klass
            assert issubclass(user.Sub, user.Klass)
            assert user.Sub().n([]) == base.Klass().n([])


def originals():
    """Every object a hook may have replaced, by place."""
    base = sys.modules["h_base"]
    found = {f"{name}": vars(base)[name] for name in ("f", "Klass", "Parent", "Child")}
    for klass in (base.Parent, base.Child, base.Klass):
        found |= {f"{klass.__name__}.{name}": value for name, value in vars(klass).items() if name in "mcspn"}
        found[f"{klass.__name__} names"] = sorted(vars(klass))
    found["borrowed"] = vars(base.Child)["borrowed"]
    found["table"] = base.TABLE["f"]
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


@pytest.mark.parametrize("loaded", [False, True])
@settings(max_examples=150, deadline=None, suppress_health_check=RELAXED)
@given(history=operations)
def test_any_history_takes_effect_and_is_undone(history_folder, history, loaded):
    HookRegistry.reset()
    for name in HISTORY:
        sys.modules.pop(name, None)
    state = History()
    before = {}
    if loaded:
        importlib.import_module("h_user")
        before = originals()
    for operation in history:
        state.perform(*operation)
        state.check()
    HookRegistry.reset()
    base = importlib.import_module("h_base")
    after = originals()
    if loaded:
        assert {name for name in before if name not in after or after[name] is not before[name]} <= {
            name for name in before if name.endswith("names")
        }
        assert {name: after[name] for name in before} == before
    assert not [name for name, value in after.items() if hasattr(value, "__wrapped__") and value is not None
                and not isinstance(value, classmethod | staticmethod)]
    assert base.Child.borrowed is base.f
    assert sorted(sys.modules) == sorted(sys.modules)
    assert HookRegistry.report() == []
