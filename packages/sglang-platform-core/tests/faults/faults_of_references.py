"""Faults of hooks on a target that others refer to already."""

from __future__ import annotations

from fault_of_hook import hook_fault, right_hook

__all__ = ["FAULTS"]

FAULTS = [
    right_hook(
        "held-in-dict",
        "a registry (a dict) holds the target already",
        """
        import engine.registry
        HookRegistry.register("engine.scheduler.schedule", lambda result, *args, **kwargs: "hooked")
        HookRegistry.apply_hooks()
        see(engine.registry.POLICIES["default"]("batch"))
        """,
        "hooked",
        engine__registry="from engine.scheduler import schedule\nPOLICIES = {'default': schedule}\n",
    ),
    right_hook(
        "held-in-partial",
        "a `functools.partial` holds the target already",
        """
        import engine.registry
        HookRegistry.register("engine.scheduler.schedule", lambda result, *args, **kwargs: "hooked")
        HookRegistry.apply_hooks()
        see(engine.registry.SCHEDULE())
        """,
        "hooked",
        engine__registry="""
        import functools
        from engine.scheduler import schedule
        SCHEDULE = functools.partial(schedule, "batch")
        """,
    ),
    right_hook(
        "held-in-default",
        "a default argument holds the target already",
        """
        import engine.registry
        HookRegistry.register("engine.scheduler.schedule", lambda result, *args, **kwargs: "hooked")
        HookRegistry.apply_hooks()
        see(engine.registry.step())
        """,
        "hooked",
        engine__registry="""
        from engine.scheduler import schedule
        def step(policy=schedule): return policy("batch")
        """,
    ),
    right_hook(
        "held-by-subclass",
        "a class is replaced that has a subclass already",
        """
        import engine.registry, engine.scheduler
        class Mine(engine.scheduler.Scheduler):
            def run(self, batch): return "replaced"
        HookRegistry.register("engine.scheduler.Scheduler", Mine, HookType.REPLACE)
        HookRegistry.apply_hooks()
        see(engine.registry.Special().run("batch"))
        """,
        "replaced",
        engine__registry="from engine.scheduler import Scheduler\nclass Special(Scheduler): ...\n",
    ),
    hook_fault(
        "held-in-closure",
        "a closure holds the target already",
        """
        import engine.registry
        HookRegistry.register("engine.scheduler.schedule", lambda result, *args, **kwargs: "hooked")
        HookRegistry.apply_hooks()
        see(engine.registry.STEP())
        """,
        "report",
        "not reached: engine.registry.make.<locals>.<lambda>",
        "(a closure)",
        seen="batch scheduled",
        modules={
            "engine.registry": """
            from engine.scheduler import schedule
            def make():
                policy = schedule
                return lambda: policy("batch")
            STEP = make()
            """
        },
    ),
    hook_fault(
        "held-in-tuple",
        "a tuple holds the target already",
        """
        import engine.registry
        HookRegistry.register("engine.scheduler.schedule", lambda result, *args, **kwargs: "hooked")
        HookRegistry.apply_hooks()
        see(engine.registry.POLICIES[0]("batch"))
        """,
        "report",
        "not reached: engine.registry.POLICIES (a tuple)",
        seen="batch scheduled",
        modules={"engine.registry": "from engine.scheduler import schedule\nPOLICIES = (schedule,)\n"},
    ),
    hook_fault(
        "held-as-bound-method",
        "a bound method was taken before",
        """
        import engine.registry
        HookRegistry.register("engine.scheduler.Scheduler.run", lambda result, *args, **kwargs: "hooked")
        HookRegistry.apply_hooks()
        see(engine.registry.RUN("batch"))
        """,
        "report",
        "not reached: engine.registry.RUN (a bound method of a Scheduler object)",
        seen="ran batch",
        modules={"engine.registry": "from engine.scheduler import Scheduler\nRUN = Scheduler().run\n"},
    ),
    hook_fault(
        "subclass-of-stranger",
        "a class with a subclass is replaced by one that is not derived from it",
        """
        import engine.registry, engine.scheduler
        class Stranger:
            def run(self, batch): return "replaced"
        HookRegistry.register("engine.scheduler.Scheduler", Stranger, HookType.REPLACE)
        HookRegistry.apply_hooks()
        see(engine.registry.Special().run("batch"))
        """,
        "report",
        "not reached: subclass engine.registry.Special (its base is not a base of the replacement)",
        seen="ran batch",
        modules={
            "engine.registry": "from engine.scheduler import Scheduler\nclass Special(Scheduler): ...\n"
        },
    ),
]
