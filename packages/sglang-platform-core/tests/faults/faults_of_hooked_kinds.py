"""Faults of hooks that depend on what kind of thing the target is, and on when its module runs."""

from __future__ import annotations

from fault_of_hook import hook_fault, right_hook

__all__ = ["FAULTS"]

CACHED = {
    "engine.cached": """
    import functools
    @functools.lru_cache
    def size(): return "a size"
    class Model:
        @functools.cached_property
        def size(self): return "a size"
    """,
}


KINDS = [
    right_hook(
        "inherited-classmethod",
        "an AFTER hook on an inherited classmethod",
        """
        from engine.scheduler import Scheduler
        HookRegistry.register("engine.scheduler.Scheduler.named", lambda result, *args, **kwargs: result + " hooked")
        HookRegistry.apply_hooks()
        see(f"{Scheduler.named('x')}, {Scheduler().named('x')}")
        """,
        "Scheduler x hooked, Scheduler x hooked",
    ),
    right_hook(
        "inherited-staticmethod",
        "an AFTER hook on an inherited staticmethod",
        """
        from engine.scheduler import Scheduler
        HookRegistry.register("engine.scheduler.Scheduler.rounded", lambda result, *args, **kwargs: result + " hooked")
        HookRegistry.apply_hooks()
        see(Scheduler().rounded(7))
        """,
        "rounded 7 hooked",
    ),
    right_hook(
        "property",
        "an AFTER hook on a property",
        """
        from engine.scheduler import Scheduler
        HookRegistry.register("engine.scheduler.Scheduler.load", lambda result, *args, **kwargs: "hooked")
        HookRegistry.apply_hooks()
        load = Scheduler().load
        see(load if isinstance(load, str) else f"load is a {type(load).__name__}")
        """,
        "hooked",
    ),
    right_hook(
        "cached-property",
        "an AFTER hook on a cached property",
        """
        from engine.cached import Model
        HookRegistry.register("engine.cached.Model.size", lambda result, *args, **kwargs: "hooked")
        HookRegistry.apply_hooks()
        size = Model().size
        see(size if isinstance(size, str) else f"size is a {type(size).__name__}")
        """,
        "hooked",
        **{name.replace(".", "__"): source for name, source in CACHED.items()},
    ),
    right_hook(
        "async-after",
        "an AFTER hook on an async method",
        """
        from engine.scheduler import Scheduler
        seen = []
        HookRegistry.register("engine.scheduler.Scheduler.receive", lambda result, *args, **kwargs: seen.append(result))
        HookRegistry.apply_hooks()
        finish(Scheduler().receive())
        see(seen[0] if isinstance(seen[0], str) else f"the hook got a {type(seen[0]).__name__}")
        """,
        "a request",
    ),
    right_hook(
        "async-kind",
        "a hooked async method is asked what it is, as web frameworks do",
        """
        import inspect
        from engine.scheduler import Scheduler
        HookRegistry.register("engine.scheduler.Scheduler.receive", lambda *args, **kwargs: None, HookType.BEFORE)
        HookRegistry.apply_hooks()
        see(f"a coroutine function: {inspect.iscoroutinefunction(Scheduler.receive)}")
        """,
        "a coroutine function: True",
    ),
    right_hook(
        "generator-kind",
        "a hooked generator is asked what it is",
        """
        import inspect
        from engine.scheduler import Scheduler
        HookRegistry.register("engine.scheduler.Scheduler.stream", lambda *args, **kwargs: None, HookType.BEFORE)
        HookRegistry.apply_hooks()
        see(f"a generator function: {inspect.isgeneratorfunction(Scheduler.stream)}")
        """,
        "a generator function: True",
    ),
    hook_fault(
        "lru-cache",
        "a hooked `functools.lru_cache` is cleared",
        """
        import engine.cached
        HookRegistry.register("engine.cached.size", lambda *args, **kwargs: None, HookType.BEFORE)
        HookRegistry.apply_hooks()
        engine.cached.size.cache_clear()
        see("cleared")
        """,
        "right",
        seen="cleared",
        modules=CACHED,
    ),
]

AS_THE_MODULE_RUNS = [
    right_hook(
        "module-half-imported",
        "hooks are applied while the target's module is being imported",
        """
        import engine.main
        see(engine.main.serve())
        """,
        "hooked",
        engine__main="""
        import engine.start
        def serve(): return "served"
        """,
        engine__start="""
        from framework import HookRegistry
        HookRegistry.register("engine.main.serve", lambda result: "hooked")
        HookRegistry.apply_hooks()
        """,
    ),
    right_hook(
        "module-reloaded",
        "the target's module is reloaded",
        """
        import importlib, engine.scheduler
        HookRegistry.register("engine.scheduler.schedule", lambda result, *args, **kwargs: "hooked")
        HookRegistry.apply_hooks()
        importlib.reload(engine.scheduler)
        see(engine.scheduler.schedule("batch"))
        """,
        "hooked",
    ),
    right_hook(
        "re-exported-and-bound",
        "a function that its package re-exports and a model binds with `from X import Y`",
        """
        import engine.model
        HookRegistry.register("engine.rotary.get_rope", lambda result: "hooked")
        HookRegistry.apply_hooks()
        see(engine.model.build())
        """,
        "hooked",
        engine__rotary="from engine.rotary.factory import get_rope",
        engine__rotary__factory="def get_rope(): return 'plain'",
        engine__model="from engine.rotary import get_rope\ndef build(): return get_rope()\n",
    ),
    right_hook(
        "re-exported-and-imported-later",
        "the same, with hooks applied before anything is imported",
        """
        HookRegistry.register("engine.rotary.get_rope", lambda result: "hooked")
        HookRegistry.apply_hooks()
        import engine.model
        see(engine.model.build())
        """,
        "hooked",
        engine__rotary="from engine.rotary.factory import get_rope\nTABLE = {'default': get_rope}\n",
        engine__rotary__factory="def get_rope(): return 'plain'",
        engine__model="from engine.rotary import TABLE\ndef build(): return TABLE['default']()\n",
    ),
    hook_fault(
        "found-missing-when-run",
        "the target's absence shows only when its module runs",
        """
        HookRegistry.register("engine.generated.made", lambda result: "hooked")
        HookRegistry.apply_hooks()
        import engine.generated
        see("started")
        """,
        "HookTargetError",
        "engine.generated.made: engine.generated has no 'made'; nearest: engine.generated:make",
        modules={"engine.generated": "for name in ('make', 'schedule'): globals()[name] = len\n"},
    ),
]

FAULTS = [*KINDS, *AS_THE_MODULE_RUNS]
