"""Every kind of callable keeps its kind under hooks of every type, and gets its original back."""

from __future__ import annotations

import functools
import inspect
import pickle

import pytest

from sglang_platform.core.errors import HookError, HookSignatureError
from sglang_platform.core.hooks.registry import HookRegistry, HookType


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
    host.bring("kinds")
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
    host.bring("kinds")
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


def test_what_cannot_be_called_cannot_be_hooked(host):
    host.bring("kinds")
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
