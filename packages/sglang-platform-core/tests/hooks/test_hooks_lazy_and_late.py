"""When hooks take effect: before anyone has a module's names, or afterwards with every binding brought along."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import sys
import threading
import time

import pytest

from sglang_platform.core.errors import HookTargetError, LaunchRefused
from sglang_platform.core.hooks import registry
from sglang_platform.core.hooks.registry import HookRegistry, HookType, plugin_hook


def plus(amount):
    def after(result, *args, **kwargs):
        return result + amount

    return after


def test_registering_and_applying_import_nothing(host):
    host.write(lazy_mod="raise RuntimeError('imported')")
    HookRegistry.register("lazy_mod:f", plus(1), required=False)
    HookRegistry.apply_hooks()
    assert "lazy_mod" not in sys.modules


def test_module_is_hooked_before_the_importer_binds_its_names(host):
    host.write(base="def f(): return 1", user="from base import f\nresult = f()")
    HookRegistry.register("base:f", plus(1))
    HookRegistry.apply_hooks()
    assert host.load("user").result == 2
    assert HookRegistry.is_applied("base:f")


def test_hooks_wait_for_apply(host):
    host.write(base="def f(): return 1")
    HookRegistry.register("base:f", plus(1))
    base = host.load("base")
    assert base.f() == 1
    HookRegistry.apply_hooks()
    assert base.f() == 2


@pytest.mark.parametrize("spelling", ["pkg.mod.Class.method", "pkg.mod:Class.method"])
@pytest.mark.parametrize("late", [False, True])
def test_both_spellings_apply(host, spelling, late):
    host.write(pkg____init__="", pkg__mod="class Class:\n    def method(self): return 1\n")
    if late:
        host.load("pkg.mod")
    HookRegistry.register(spelling, plus(1))
    HookRegistry.apply_hooks()
    assert host.load("pkg.mod").Class().method() == 2


def test_both_spellings_are_one_target(host):
    host.write(mod="def f(): return 1")
    HookRegistry.register("mod:f", plus(1))
    HookRegistry.register("mod.f", plus(10))
    HookRegistry.apply_hooks()
    assert host.load("mod").f() == 12
    assert HookRegistry.is_applied("mod:f")
    assert HookRegistry.is_applied("mod.f")
    assert {row["target"] for row in HookRegistry.report()} == {"mod:f"}


def test_stale_bindings_of_loaded_modules_are_brought_along_and_back(host):
    host.write(base="def f(): return 1", one="from base import f", two="from one import f as g")
    base, one, two = host.load("base"), host.load("one"), host.load("two")
    original = base.f
    HookRegistry.register("base:f", plus(1))
    HookRegistry.apply_hooks()
    assert (base.f(), one.f(), two.g()) == (2, 2, 2)
    host.write(three="from base import f")
    three = host.load("three")
    assert three.f() == 2
    HookRegistry.reset()
    assert {id(one) for one in (base.f, one.f, two.g, three.f)} == {id(original)}


def test_late_hook_on_an_already_hooked_target_takes_effect(host):
    host.write(base="def f(): return 1", user="from base import f")
    user = host.load("user")
    HookRegistry.register("base:f", plus(1))
    HookRegistry.apply_hooks()
    hooked = user.f
    HookRegistry.register("base:f", plus(10))
    assert user.f() == 12
    assert user.f is hooked


def test_late_hook_on_a_loaded_module_takes_effect_at_once(host):
    host.write(base="def f(): return 1")
    HookRegistry.apply_hooks()
    base = host.load("base")
    HookRegistry.register("base:f", plus(1))
    assert base.f() == 2


REEXPORT = {
    "rope____init__": "from rope.factory import get_rope\n__all__ = ['get_rope']\n",
    "rope__factory": "def get_rope(): return 1\ndef wrapped(): return get_rope()\n",
    "model": "from rope import get_rope\n",
}


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("target", ["rope:get_rope", "rope.get_rope", "rope.factory:get_rope"])
def test_reexported_name(host, late, target):
    host.write(**REEXPORT)
    if late:
        host.load("model")
    HookRegistry.register(target, plus(1))
    HookRegistry.apply_hooks()
    model = host.load("model")
    rope, factory = host.load("rope"), host.load("rope.factory")
    assert (model.get_rope(), rope.get_rope(), factory.get_rope(), factory.wrapped()) == (2, 2, 2, 2)


@pytest.mark.parametrize("late", [False, True])
def test_a_name_and_its_reexport_share_one_stack(host, late):
    host.write(**REEXPORT)
    if late:
        host.load("model")
    HookRegistry.register("rope:get_rope", plus(1))
    HookRegistry.register("rope.factory:get_rope", plus(10))
    HookRegistry.apply_hooks()
    model = host.load("model")
    assert model.get_rope() == 12
    assert model.get_rope.__wrapped__() == 1
    second = [row for row in HookRegistry.report() if row["target"] == "rope.factory:get_rope"]
    assert second[0]["state"] == "applied"
    HookRegistry.reset()
    assert not hasattr(model.get_rope, "__wrapped__")
    assert model.get_rope is host.load("rope").get_rope is host.load("rope.factory").get_rope


def test_a_module_that_is_still_running_is_hooked_when_it_ends(host):
    host.write(
        half="""
        def f(): return 1
        first = f
        import trigger
        def g(): return f() * 100
        """,
        trigger="""
        from sglang_platform.core.hooks.registry import HookRegistry
        import half
        HookRegistry.register("half:g", lambda result: result + 1)
        HookRegistry.register("half:f", lambda result: result + 1)
        HookRegistry.apply_hooks()
        seen = [row["state"] for row in HookRegistry.report()], hasattr(half, "g"), half.f()
        """,
    )
    half = host.load("half")
    trigger = host.load("trigger")
    assert trigger.seen == (["pending", "pending"], False, 1)
    assert (half.f(), half.first(), half.g()) == (2, 2, 201)
    assert type(half.__spec__) is importlib.machinery.ModuleSpec


def test_a_running_module_whose_import_fails_is_left_alone(host):
    host.write(
        half="import trigger\ndef f(): return 1\nraise OSError('no device')",
        trigger="""
        from sglang_platform.core.hooks.registry import HookRegistry
        HookRegistry.register("half:f", lambda result: result + 1)
        HookRegistry.apply_hooks()
        """,
    )
    with pytest.raises(OSError, match="no device"):
        host.load("half")
    assert HookRegistry.report()[0]["state"] == "pending"
    host.write(half="def f(): return 2   # the second try gets through\n")
    assert host.load("half").f() == 3


def test_circular_imports_leave_no_stale_binding(host):
    host.write(
        left="def f(): return 1\nimport right\n",
        right="from left import f\ndef call(): return f()\n",
    )
    HookRegistry.register("left:f", plus(1))
    HookRegistry.apply_hooks()
    host.load("left")
    assert host.load("right").call() == 2


def test_reloading_a_module_keeps_its_hooks(host):
    host.write(base="def f(): return 1", user="from base import f")
    HookRegistry.register("base:f", plus(1))
    HookRegistry.apply_hooks()
    base, user = host.load("base"), host.load("user")
    host.write(base="def f(): return 50  # another length\n")
    importlib.reload(base)
    assert (base.f(), user.f()) == (51, 51)
    HookRegistry.reset()
    assert (base.f(), user.f()) == (50, 50)


def test_the_module_keeps_its_own_loader(host):
    host.write(base="loader_while_running = __spec__.loader, __loader__\ndef f(): return 1")
    HookRegistry.register("base:f", plus(1))
    HookRegistry.apply_hooks()
    base = host.load("base")
    plain = importlib.machinery.SourceFileLoader
    assert isinstance(base.__spec__.loader, plain)
    assert isinstance(base.__loader__, plain)
    assert all(isinstance(one, plain) for one in base.loader_while_running)
    assert importlib.util.find_spec("base").loader.get_source("base").startswith("loader_while")


def test_a_name_that_a_module_makes_on_first_use_is_no_target(host):
    host.write(
        lazy____init__="""
        def __getattr__(name):
            from lazy import impl
            return getattr(impl, name)
        """,
        lazy__impl="def f(): return 1\n",
    )
    HookRegistry.register("lazy:f", plus(1))
    HookRegistry.apply_hooks()
    with pytest.raises(HookTargetError, match="hook it in the module that defines it"):
        host.load("lazy")
    assert "lazy.impl" not in sys.modules


def test_one_finder_however_many_hooks(host):
    host.write(**{f"many_{i}": "def f(): return 1" for i in range(20)})
    before = len(sys.meta_path)
    for i in range(20):
        HookRegistry.register(f"many_{i}:f", plus(i))
    HookRegistry.apply_hooks()
    HookRegistry.apply_hooks()
    assert len(sys.meta_path) == before + 1
    assert [host.load(f"many_{i}").f() for i in range(20)] == [1 + i for i in range(20)]
    HookRegistry.reset()
    assert len(sys.meta_path) == before


def test_other_finders_may_ask_the_whole_path_again(host):
    host.write(base="def f(): return 1")

    class Asker:
        asking = False

        def find_spec(self, name, path=None, target=None):
            if name != "base" or self.asking:
                return None
            self.asking = True
            try:
                return importlib.util.find_spec(name)
            finally:
                self.asking = False

    calls = []

    @plugin_hook("base:f")
    def count(result):
        calls.append(result)

    asker = Asker()
    sys.meta_path.insert(0, asker)
    try:
        HookRegistry.apply_hooks()
        assert host.load("base").f() == 1
    finally:
        sys.meta_path.remove(asker)
    assert calls == [1]


def test_a_module_loaded_past_the_import_system_is_not_called_pending_for_no_reason(host):
    host.write(base="def f(): return 1")
    HookRegistry.register("base:f", plus(1))
    HookRegistry.apply_hooks()
    spec = importlib.util.spec_from_file_location("base", host.folder / "base.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["base"] = module
    spec.loader.exec_module(module)
    assert "apply_hooks() again" in HookRegistry.report()[0]["why"]
    HookRegistry.apply_hooks()
    assert module.f() == 2


def test_required_target_missing_at_run_time_fails_the_import(host):
    host.write(dyn="exec('def present(): return 1')\n", other="def g(): return 1")
    HookRegistry.register("dyn:absent", plus(1))
    HookRegistry.register("dyn:present", plus(1))
    HookRegistry.register("other:g", plus(1))
    HookRegistry.apply_hooks()  # the source cannot tell
    with pytest.raises(HookTargetError, match=r"dyn:absent"):
        host.load("dyn")
    assert "dyn" not in sys.modules
    states = {row["target"]: row["state"] for row in HookRegistry.report()}
    assert states == {"dyn:absent": "failed", "dyn:present": "pending", "other:g": "pending"}
    assert host.load("other").g() == 2


def test_a_late_error_can_be_one_that_no_importer_swallows(host, monkeypatch):
    host.write(late="def f(a, b): return a")
    monkeypatch.setattr(registry._engine, "late_error", registry._engine.late_error)
    HookRegistry.late_errors_as(LaunchRefused.because)
    HookRegistry.register("late:f", lambda: 1, HookType.REPLACE)
    HookRegistry.apply_hooks()

    def skip_what_fails():  # as SGLang does with the modules of its models
        try:
            host.load("late")
        except Exception:  # noqa: BLE001
            return

    with pytest.raises(LaunchRefused, match=r"late:f: it takes 0 positional arguments"):
        skip_what_fails()
    assert "late" not in sys.modules


@pytest.fixture
def collections_let_others_run():
    """Collections come often, and with each another thread has its turn."""
    before = gc.get_threshold()

    def let_others_run(*_):
        time.sleep(0)

    gc.callbacks.append(let_others_run)
    gc.set_threshold(20, 5, 5)
    yield
    gc.set_threshold(*before)
    gc.callbacks.remove(let_others_run)


@pytest.mark.usefixtures("collections_let_others_run")
def test_importing_and_applying_in_many_threads(host):
    host.write(**{f"thr_{i}": "def f(): return 1" for i in range(12)})
    failures = []

    def register(i):
        try:
            HookRegistry.register(f"thr_{i}:f", plus(1))
            HookRegistry.apply_hooks()
        except Exception as error:  # noqa: BLE001 - carried to the main thread
            failures.append(error)

    def load(i):
        try:
            host.load(f"thr_{i}")
        except Exception as error:  # noqa: BLE001 - carried to the main thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(12) for work in (register, load)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    assert not failures
    assert not any(thread.is_alive() for thread in threads)
    assert [host.load(f"thr_{i}").f() for i in range(12)] == [2] * 12


def test_around_by_decorator_keyword(host):
    host.write(base="def f(x): return x")

    @plugin_hook("base:f", type=HookType.AROUND)
    def doubled(original, x):
        return original(x) * 2

    HookRegistry.apply_hooks()
    assert host.load("base").f(4) == 8
