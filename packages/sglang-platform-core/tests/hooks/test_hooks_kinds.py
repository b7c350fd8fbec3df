"""Every kind of callable keeps its kind under hooks of every type, and gets its original back."""

from __future__ import annotations

import asyncio
import functools
import inspect
import pickle

import pytest

from sglang_platform.core.errors import HookError, HookSignatureError
from sglang_platform.core.hooks.registry import RETURN_NONE, HookRegistry, HookType

KINDS = """
import functools, abc

def function(x, y=2):
    "What it does."
    return x + y
function.tag = "kept"

@functools.lru_cache(maxsize=None)
def cached(x):
    return x + 2

class Parent:
    def inherited(self, x, y=2): return x + y
    @classmethod
    def inherited_class(cls, x, y=2): return cls.__name__, x + y
    @staticmethod
    def inherited_static(x, y=2): return x + y
    @property
    def inherited_property(self): return 3

class Class(Parent):
    def method(self, x, y=2): return x + y
    @classmethod
    def class_method(cls, x, y=2): return cls.__name__, x + y
    @staticmethod
    def static_method(x, y=2): return x + y
    @property
    def prop(self):
        "A property."
        return getattr(self, "_prop", 3)
    @prop.setter
    def prop(self, value): self._prop = value
    @functools.cached_property
    def cached_prop(self): return 3
    part = functools.partialmethod(method, y=2)
    borrowed = len
    def __init__(self): self.made = True
    def __call__(self, x, y=2): return x + y
    @abc.abstractmethod
    def abstract(self): ...

async def coroutine(x, y=2):
    return x + y

def generator(n):
    got = []
    for i in range(n):
        got.append((yield i))
    return got

async def async_generator(n):
    got = []
    for i in range(n):
        got.append((yield i))
    yield got

CONSTANT = 3
"""


@pytest.fixture(params=[False, True], ids=["lazy", "late"])
def kinds(host, request):
    """Apply hooks lazily or late: `kinds(...)` returns the module with the hooks in force."""
    host.write(kinds=KINDS)
    if request.param:
        host.load("kinds")

    def hooked(*hooks):
        for target, hook, type_ in hooks:
            HookRegistry.register(f"kinds:{target}", hook, type_)
        HookRegistry.apply_hooks()
        return host.load("kinds")

    return hooked


def around(original, *args, **kwargs):
    return original(*args, **kwargs)


def test_function_keeps_its_metadata(kinds):
    module = kinds(("function", around, HookType.AROUND))
    function = module.function
    assert inspect.isfunction(function)
    assert (function.__name__, function.__qualname__, function.__module__) == (
        "function",
        "function",
        "kinds",
    )
    assert function.__doc__ == "What it does."
    assert function.tag == "kept"
    assert str(inspect.signature(function)) == "(x, y=2)"
    assert function.__wrapped__(1) == 3
    assert pickle.loads(pickle.dumps(function)) is function


def test_functions_with_methods_lend_them(kinds):
    module = kinds(("cached", lambda result, x: result * 10, HookType.AFTER))
    assert module.cached(1) == 30
    module.cached(1)
    assert module.cached.cache_info().hits == 1
    module.cached.cache_clear()
    assert module.cached.cache_info().currsize == 0


METHODS = [
    ("method", False),
    ("class_method", True),
    ("static_method", False),
    ("inherited", False),
    ("inherited_class", True),
    ("inherited_static", False),
    ("__call__", False),
]


@pytest.mark.parametrize(("name", "named"), METHODS)
def test_methods_of_every_kind(kinds, name, named):
    seen = []

    def before(*args, **kwargs):
        seen.append((args[-1], kwargs))
        return (*args[:-1], args[-1] * 10), kwargs

    def after(result, *args, **kwargs):
        return (result[0], result[1] + 1) if named else result + 1

    module = kinds((f"Class.{name}", before, HookType.BEFORE), (f"Class.{name}", after, HookType.AFTER))
    want = ("Class", 16) if named else 16
    assert getattr(module.Class(), name)(1, y=5) == want
    if name not in ("method", "inherited", "__call__"):
        assert getattr(module.Class, name)(1, y=5) == want
    assert seen[0] == (1, {"y": 5})
    sub = type("Sub", (module.Class,), {})
    assert getattr(sub(), name)(1, y=5) == (("Sub", 16) if named else 16)
    raw = vars(module.Class)[name]
    assert isinstance(raw, staticmethod) == ("static" in name)
    assert isinstance(raw, classmethod) == named


@pytest.mark.parametrize("name", ["inherited", "inherited_class", "inherited_static", "inherited_property"])
def test_a_hook_on_an_inherited_attribute_leaves_the_parent_alone(host, name):
    host.write(kinds=KINDS)
    module = host.load("kinds")
    raw = vars(module.Parent)[name]
    calls = []
    HookRegistry.register(f"kinds:Class.{name}", lambda *args, **kwargs: calls.append(args), HookType.BEFORE)
    HookRegistry.apply_hooks()
    assert vars(module.Parent)[name] is raw
    for klass in (module.Parent, module.Class):
        value = getattr(klass(), name)
        if callable(value):
            value(1)
    assert len(calls) == 1
    HookRegistry.reset()
    assert name not in vars(module.Class)


def test_a_hooked_inherited_method_sees_later_hooks_on_its_parent(host):
    host.write(kinds=KINDS)
    module = host.load("kinds")
    HookRegistry.apply_hooks()
    HookRegistry.register("kinds:Class.inherited", lambda result, *a, **k: result + 1)
    hook = lambda result, *a, **k: result + 100  # noqa: E731
    HookRegistry.register("kinds:Parent.inherited", hook)
    assert (module.Class().inherited(1), module.Parent().inherited(1)) == (104, 103)
    HookRegistry.unregister("kinds:Parent.inherited", hook)
    assert (module.Class().inherited(1), module.Parent().inherited(1)) == (4, 3)


def test_property_stays_a_property_with_setter_and_documentation(kinds):
    module = kinds(("Class.prop", lambda result, self: result + 1, HookType.AFTER))
    one = module.Class()
    assert isinstance(vars(module.Class)["prop"], property)
    assert module.Class.prop.__doc__ == "A property."
    assert one.prop == 4
    one.prop = 10
    assert one.prop == 11


def test_cached_property_is_computed_once(kinds):
    calls = []
    module = kinds(("Class.cached_prop", lambda self: calls.append(self), HookType.BEFORE))
    one = module.Class()
    assert (one.cached_prop, one.cached_prop, len(calls)) == (3, 3, 1)
    assert isinstance(vars(module.Class)["cached_prop"], functools.cached_property)


def test_partialmethod_and_a_builtin_as_attribute(kinds):
    module = kinds(
        ("Class.part", lambda result, *a, **k: result * 10, HookType.AFTER),
        ("Class.borrowed", lambda result, *a, **k: result * 10, HookType.AFTER),
    )
    assert module.Class().part(1) == 30
    assert module.Class().borrowed([1, 2]) == 20
    assert module.Class.borrowed([1, 2]) == 20


def test_init(kinds):
    module = kinds(("Class.__init__", lambda result, self: setattr(self, "more", 1), HookType.AFTER))
    assert module.Class().more == 1
    assert module.Class().made


def test_abstract_methods_stay_abstract(kinds):
    module = kinds(("Class.abstract", lambda *a: None, HookType.BEFORE))
    assert module.Class.abstract.__isabstractmethod__


def test_coroutine_function_awaits_its_hooks_and_after_sees_the_result(kinds):
    seen = []

    async def before(x, y=2):
        await asyncio.sleep(0)
        return (x * 10,), {"y": y}

    def after(result, *args, **kwargs):
        seen.append(result)
        return result + 1

    async def async_after(result, *args, **kwargs):
        await asyncio.sleep(0)
        return result * 2

    async def async_around(original, *args, **kwargs):
        return await original(*args, **kwargs) + 1000

    module = kinds(
        ("coroutine", before, HookType.BEFORE),
        ("coroutine", after, HookType.AFTER),
        ("coroutine", async_after, HookType.AFTER),
        ("coroutine", around, HookType.AROUND),
        ("coroutine", async_around, HookType.AROUND),
    )
    assert inspect.iscoroutinefunction(module.coroutine)
    assert asyncio.run(module.coroutine(1)) == 26 + 1000
    assert seen == [12]


def test_coroutine_function_replaced_by_a_plain_one(kinds):
    module = kinds(("coroutine", lambda x, y=2: x * y, HookType.REPLACE))
    assert inspect.iscoroutinefunction(module.coroutine)
    assert asyncio.run(module.coroutine(5, y=4)) == 20


def test_the_original_of_an_async_around_is_async_whatever_lies_within(kinds):
    kinds_seen = []

    async def outer(original, *args, **kwargs):
        kinds_seen.append(inspect.iscoroutinefunction(original))
        return await original(*args, **kwargs)

    module = kinds(
        ("coroutine", lambda original, *a, **k: 42, HookType.AROUND),
        ("coroutine", outer, HookType.AROUND),
    )
    assert asyncio.run(module.coroutine(1)) == 42
    assert kinds_seen == [True]


def drain(generator, *sent):
    items, values = [], iter(sent)
    try:
        items.append(next(generator))
        while True:
            items.append(generator.send(next(values, None)))
    except StopIteration as stop:
        return items, stop.value


def test_generator_function_forwards_everything(kinds):
    def after(result, n):
        assert inspect.isgenerator(result)

    module = kinds(
        ("generator", lambda n: ((n + 1,), {}), HookType.BEFORE),
        ("generator", after, HookType.AFTER),
        ("generator", around, HookType.AROUND),
    )
    assert inspect.isgeneratorfunction(module.generator)
    assert drain(module.generator(2), "a", "b") == ([0, 1, 2], ["a", "b", None])
    running = module.generator(1)
    next(running)
    with pytest.raises(KeyError):
        running.throw(KeyError("in"))


def test_after_may_put_another_iterator_in_a_generators_place(kinds):
    module = kinds(("generator", lambda result, n: (i * 10 for i in result), HookType.AFTER))
    assert list(module.generator(3)) == [0, 10, 20]
    HookRegistry.register("kinds:generator", lambda result, n: RETURN_NONE)
    assert list(module.generator(3)) == []


def test_async_generator_function_forwards_everything(kinds):
    closed = []

    async def scenario(module):
        stream = module.async_generator(2)
        items = [await stream.__anext__(), await stream.asend("a"), await stream.asend("b")]
        with pytest.raises(StopAsyncIteration):
            await stream.__anext__()
        stream = module.async_generator(2)
        await stream.__anext__()
        with pytest.raises(KeyError):
            await stream.athrow(KeyError("in"))
        stream = module.async_generator(2)
        await stream.__anext__()
        await stream.aclose()
        return items

    async def watch(original, n):
        try:
            async for item in original(n):
                yield item
        except GeneratorExit:
            closed.append(n)
            raise

    async def before(n):
        await asyncio.sleep(0)
        return (n,), {}

    module = kinds(("async_generator", before, HookType.BEFORE), ("async_generator", around, HookType.AROUND))
    assert inspect.isasyncgenfunction(module.async_generator)
    assert asyncio.run(scenario(module)) == [0, 1, ["a", "b"]]
    HookRegistry.register("kinds:async_generator", watch, HookType.AROUND)

    async def stop_early():
        stream = module.async_generator(3)
        await stream.__anext__()
        await stream.aclose()

    asyncio.run(stop_early())
    assert closed == [3]


@pytest.mark.parametrize("type_", list(HookType))
@pytest.mark.parametrize("target", ["function", "generator", "Class.method"])
def test_async_hooks_on_other_kinds_are_refused(kinds, type_, target):
    async def hook(*args, **kwargs): ...

    with pytest.raises(HookSignatureError, match="async"):
        kinds((target, hook, type_))


def test_what_cannot_be_called_cannot_be_hooked(host):
    host.write(kinds=KINDS)
    host.load("kinds")
    HookRegistry.register("kinds:CONSTANT", around, HookType.AROUND)
    with pytest.raises(HookError, match="'CONSTANT' is of type int, which cannot be called"):
        HookRegistry.apply_hooks()


def test_a_subscriptable_callable_is_replaced_by_identity_only(host):
    host.write(
        kernels="""
        class Kernel:
            def __call__(self, *args): raise TypeError("launch with [grid]")
            def __getitem__(self, grid): return lambda *args: (grid, args)
        kernel = Kernel()
        """,
        launcher="from kernels import kernel\ndef launch(): return kernel[(1,)](2)",
    )
    launcher = host.load("launcher")
    HookRegistry.register("kernels:kernel", around, HookType.AROUND)
    with pytest.raises(HookSignatureError, match="can only be replaced"):
        HookRegistry.apply_hooks()
    HookRegistry.reset()

    class Mine:
        def __call__(self, *args): ...
        def __getitem__(self, grid):
            return lambda *args: "mine"

    HookRegistry.register("kernels:kernel", Mine(), HookType.REPLACE)
    HookRegistry.apply_hooks()
    assert launcher.launch() == "mine"
    HookRegistry.reset()
    assert launcher.launch() == ((1,), (2,))


def test_method_of_an_object(host):
    host.write(obj="class Thing:\n    def m(self): return 1\nthing = Thing()\nother = Thing()\n")
    HookRegistry.register("obj:thing.m", lambda result: result + 1)
    HookRegistry.apply_hooks()
    module = host.load("obj")
    assert (module.thing.m(), module.other.m()) == (2, 1)
    HookRegistry.reset()
    assert module.thing.m() == 1
    assert "m" not in vars(module.thing)


def test_an_alias_in_another_class_keeps_a_hook_to_itself(host):
    host.write(
        alias="""
        def shared(self): return 1
        class One: run = shared
        class Two: run = shared
        """
    )
    HookRegistry.register("alias:One.run", lambda result, self: result + 1)
    HookRegistry.apply_hooks()
    module = host.load("alias")
    assert (module.One().run(), module.Two().run(), module.shared(None)) == (2, 1, 1)
    HookRegistry.register("alias:shared", lambda result, self: result + 10)
    assert (module.One().run(), module.Two().run(), module.shared(None)) == (12, 11, 11)
    HookRegistry.reset()
    assert vars(module.One)["run"] is vars(module.Two)["run"] is module.shared


def test_nothing_is_left_behind_by_a_hook_on_a_cached_property(host):
    host.write(
        lazily="import functools\nclass Model:\n    @functools.cached_property\n    def size(self): return 1\n"
    )
    lazily = host.load("lazily")
    HookRegistry.register("lazily:Model.size", lambda result, self: result + 1)
    HookRegistry.apply_hooks()
    assert lazily.Model().size == 2
    assert [row["unreached"] for row in HookRegistry.report()] == [[]]
