"""Random stacks of hooks on targets of every flavour, against a plain model."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onion_model import nested

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


def stacked(plans, module):
    """The hooks of a plan as they must nest: REPLACE first, then by order, then as registered."""
    made = [
        (type_, make_hook(module, i, type_, action), order) for i, (type_, action, order) in enumerate(plans)
    ]
    return made, [one[:2] for one in sorted(made, key=lambda one: (one[0] is not HookType.REPLACE, one[2]))]


def outcome(module, call):
    module.log.clear()
    try:
        result = call()
    except module.Stop as stop:
        result = ("stopped", *stop.args)
    return result, list(module.log)


@pytest.mark.long
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
    names = vars(module.Class) if "." in target else vars(module)
    raw = id(names[name])  # a reference of our own would be one that the hooks have to look for
    made, order = stacked(plans, module)

    def base(*args, **kwargs):
        return module.body(name.replace("_", " "), args[len(first)], kwargs)

    expected = outcome(module, lambda: nested(base, order)(*first, 1, **kwargs))
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
    assert id(names[name]) == raw


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
            st.tuples(
                st.just(HookType.BEFORE), st.sampled_from(["watch", "positional", "keyword"]), st.just(0)
            ),
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
        try:
            items.append(running.send("sent"))
        except StopIteration as stop:
            return items, stop.value
        return items, "goes on"

    def model(x, *args, **kwargs):
        got = yield module.body("generator", x, kwargs)
        return ["end", got]

    expected = outcome(module, lambda: run(nested(model, hooks)))
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
