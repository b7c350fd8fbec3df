"""Classes as targets: replaced by identity, so that isinstance, subclassing and pickling go on working."""

from __future__ import annotations

import logging
import pickle

import pytest

from sglang_platform.core.errors import HookSignatureError
from sglang_platform.core.hooks.registry import HookRegistry, HookType

MODELS = {
    "models": """
        class Model:
            tag = "host"
            def __init__(self, size=1): self.size = size
            def run(self): return "host run"
            def stop(self): return "host stop"
        class Local(Model):
            def run(self): return "local " + super().run()
        KINDS = {"model": Model}
        def make(kind=Model): return kind()
        class Outer:
            class Inner:
                def deep(self): return 1
        """,
    "user": """
        from models import Model
        class Sub(Model): pass
        def check(x): return isinstance(x, Model)
        """,
    "vendor": """
        from models import Model
        class Mine(Model):
            def __init__(self, size=1):
                Model.__init__(self, size)
                self.mine = True
            def run(self): return "mine, " + super().run()
        class Other: pass
        def late(self): return "mine stop"
        """,
}


def replace(host):
    """As plugins do it: import the host's class, subclass it, register, apply."""
    vendor = host.load("vendor")
    HookRegistry.register("models:Model", vendor.Mine, HookType.REPLACE)
    HookRegistry.apply_hooks()
    return vendor


def test_replacing_reaches_bindings_subclasses_registries_and_defaults(host):
    host.write(**MODELS)
    user, models = host.load("user"), host.load("models")
    original = models.Model
    vendor = replace(host)
    assert models.Model is user.Model is vendor.Mine
    assert models.KINDS["model"] is vendor.Mine
    assert type(models.make()) is vendor.Mine
    assert user.check(user.Sub())
    assert user.check(models.make())
    assert issubclass(user.Sub, vendor.Mine)
    assert user.Sub(size=3).mine
    assert user.Sub(size=3).size == 3
    assert models.Local().run() == "local mine, host run"
    HookRegistry.reset()
    assert models.Model is user.Model is models.KINDS["model"] is original
    assert type(models.make()) is original
    assert user.Sub.__bases__ == models.Local.__bases__ == (original,)


def test_the_replacements_module_keeps_the_original(host):
    """Its explicit `Model.__init__(self)` would call itself otherwise."""
    host.write(**MODELS)
    models = host.load("models")
    original = models.Model
    vendor = replace(host)
    assert vendor.Model is original
    assert models.Model(5).size == 5
    (row,) = HookRegistry.report()
    assert any(name.startswith("vendor.Model (kept") for name in row["unreached"])


def test_a_replacement_that_is_no_subclass_reports_the_subclasses_left(host, caplog):
    host.write(**MODELS)
    host.load("user")
    vendor = host.load("vendor")
    HookRegistry.register("models:Model", vendor.Other, HookType.REPLACE)
    with caplog.at_level(logging.WARNING):
        HookRegistry.apply_hooks()
    assert host.load("models").Model is vendor.Other
    (row,) = HookRegistry.report()
    for name in ("subclass user.Sub", "subclass models.Local"):
        assert any(one.startswith(name) for one in row["unreached"])
        assert name in caplog.text


def test_instances_of_a_replaced_class_pickle(host):
    host.write(**MODELS)
    vendor = replace(host)
    copy = pickle.loads(pickle.dumps(host.load("models").make()))
    assert type(copy) is vendor.Mine
    assert copy.mine


def test_a_replacement_made_in_a_function_pickles_under_the_name_it_took(host):
    host.write(**MODELS)
    models = host.load("models")

    def register():
        class Mine(models.Model):
            pass

        HookRegistry.register("models:Model", Mine, HookType.REPLACE)
        return Mine

    mine = register()
    name = mine.__qualname__
    HookRegistry.apply_hooks()
    assert type(pickle.loads(pickle.dumps(models.Model(7)))) is mine
    HookRegistry.reset()
    assert mine.__qualname__ == name


def test_a_replacement_made_in_a_function_reaches_the_targets_own_module(host):
    """It takes the target's name, and with it that of its module, which is not the one that defines it."""
    host.write(**MODELS)
    models = host.load("models")
    original = models.Model

    def make():
        class Mine(models.Model):
            pass

        return Mine

    mine = make()
    HookRegistry.register("models:Model", mine, HookType.REPLACE)
    HookRegistry.apply_hooks()
    assert models.KINDS["model"] is mine
    assert type(models.make()) is mine
    assert models.Local.__bases__ == (mine,)
    assert HookRegistry.report()[0]["unreached"] == []
    HookRegistry.reset()
    assert models.KINDS["model"] is original
    assert models.Local.__bases__ == (original,)


def test_a_lazily_replaced_class(host):
    host.write(**MODELS, standalone="class Mine:\n    def run(self): return 'standalone'\n")
    HookRegistry.register("models:Model", host.load("standalone").Mine, HookType.REPLACE)
    HookRegistry.apply_hooks()
    assert host.load("user").Model().run() == "standalone"


def test_a_nested_class(host):
    host.write(**MODELS)
    models = host.load("models")
    inner = models.Outer.Inner

    class Mine(inner):
        pass

    HookRegistry.register("models:Outer.Inner", Mine, HookType.REPLACE)
    HookRegistry.register("models.Outer.Inner.deep", lambda result, self: result + 1)
    HookRegistry.apply_hooks()
    assert models.Outer.Inner is Mine
    assert (models.Outer.Inner().deep(), inner().deep()) == (2, 1)
    HookRegistry.reset()
    assert models.Outer.Inner is inner


@pytest.mark.parametrize("type_", [HookType.BEFORE, HookType.AFTER, HookType.AROUND])
def test_a_class_as_target_can_only_be_replaced(host, type_):
    host.write(**MODELS)
    host.load("models")
    HookRegistry.register("models:Model", lambda *args, **kwargs: None, type_)
    with pytest.raises(HookSignatureError, match="class, which can only be replaced"):
        HookRegistry.apply_hooks()


def test_a_class_is_not_replaced_by_a_function(host):
    host.write(**MODELS)
    host.load("models")
    HookRegistry.register("models:Model", lambda *args: None, HookType.REPLACE)
    with pytest.raises(TypeError, match="so must be its replacement"):
        HookRegistry.apply_hooks()


@pytest.mark.sample(4)
@pytest.mark.parametrize("method_first", [False, True])
@pytest.mark.parametrize("later", [False, True])
def test_method_hooks_land_on_the_replacement(host, caplog, method_first, later):
    host.write(**MODELS)
    models, vendor = host.load("models"), host.load("vendor")
    original, own = models.Model, vars(vendor.Mine)["run"]
    stop = vars(original)["stop"]

    def methods():
        HookRegistry.register("models:Model.run", lambda result, self: result + "!", source=None)
        HookRegistry.register("models:Model.stop", lambda result, self: result + "!", source=None)

    def whole():
        HookRegistry.register("models:Model", vendor.Mine, HookType.REPLACE)

    first, second = (methods, whole) if method_first else (whole, methods)
    with caplog.at_level(logging.WARNING):
        first()
        if later:
            HookRegistry.apply_hooks()
        second()
        HookRegistry.apply_hooks()
    one = models.Model()
    assert (one.run(), one.stop()) == ("mine, host run!", "host stop!")
    assert (original().run(), original().stop()) == ("host run", "host stop")
    assert "models:Model.run" in caplog.text
    assert "on top of the replacement's own method" in caplog.text
    assert "models:Model.stop" not in caplog.text
    HookRegistry.unregister("models:Model", vendor.Mine)
    assert models.Model is original
    assert (original().run(), original().stop()) == ("host run!", "host stop!")
    assert vars(vendor.Mine)["run"] is own
    assert "stop" not in vars(vendor.Mine)
    HookRegistry.reset()
    assert vars(original)["stop"] is stop


def test_a_second_replacement_takes_the_place_of_the_first_and_gives_it_back(host):
    host.write(**MODELS)
    user, models = host.load("user"), host.load("models")
    original = models.Model
    first = type("First", (original,), {"tag": "first", "__module__": "plugin_one"})
    second = type("Second", (original,), {"tag": "second", "__module__": "plugin_two"})
    HookRegistry.apply_hooks()
    HookRegistry.register("models:Model", first, HookType.REPLACE)
    HookRegistry.register("models:Model", second, HookType.REPLACE)
    assert (user.Model.tag, user.Sub.tag) == ("second", "second")
    HookRegistry.unregister("models:Model", second)
    assert (user.Model.tag, user.Sub.tag) == ("first", "first")
    HookRegistry.unregister("models:Model", first)
    assert user.Model is models.Model is original
    assert user.Sub.tag == "host"


def test_modules_that_imported_the_replacement_under_its_name_keep_it(host):
    host.write(
        **MODELS,
        same="from models import Model as Base\nclass Model(Base): pass\n",
        same_user="from same import Model\n",
    )
    models, same, same_user = host.load("models"), host.load("same"), host.load("same_user")
    HookRegistry.register("models:Model", same.Model, HookType.REPLACE)
    HookRegistry.apply_hooks()
    host.write(after="from models import Model\n")
    after = host.load("after")
    assert after.Model is same.Model
    HookRegistry.reset()
    assert after.Model is models.Model is same.Base
    assert same.Model is not same.Base
    assert same_user.Model is same.Model
