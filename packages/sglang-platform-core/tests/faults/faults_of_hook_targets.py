"""Faults of hooks: what the target's name says, and what registering costs."""

from __future__ import annotations

from fault_of_hook import hook_fault

__all__ = ["FAULTS"]

FAULTS = [
    hook_fault(
        "target-misspelt",
        "the target's function is misspelt",
        """
        HookRegistry.register("engine.scheduler.shedule", lambda result, *args, **kwargs: "hooked")
        HookRegistry.apply_hooks()
        see("started")
        """,
        "HookTargetError",
        "engine.scheduler.shedule: engine.scheduler has no 'shedule'; nearest: engine.scheduler:schedule",
        "1 required hook target does not exist",
        "correct the name; required=False",
    ),
    hook_fault(
        "target-module-misspelt",
        "the target's module is misspelt",
        """
        HookRegistry.register("engine.schedular.schedule", lambda result, *args, **kwargs: "hooked")
        HookRegistry.apply_hooks()
        see("started")
        """,
        "HookTargetError",
        "engine.schedular.schedule: engine has no 'schedular'; nearest: engine:scheduler",
    ),
    hook_fault(
        "target-method-misspelt",
        "the target's method is misspelt",
        """
        HookRegistry.register("engine.scheduler.Scheduler.rum", lambda result, *args, **kwargs: "hooked")
        HookRegistry.apply_hooks()
        see("started")
        """,
        "HookTargetError",
        "engine.scheduler:Scheduler has no 'rum'; nearest: engine.scheduler:Scheduler.run",
    ),
    hook_fault(
        "target-not-required",
        "an optional hook's target does not exist",
        """
        HookRegistry.register("engine.scheduler.shedule", lambda result, *args, **kwargs: "hooked", required=False)
        HookRegistry.apply_hooks()
        see("started")
        """,
        "warning",
        "on engine.scheduler.shedule is not applied: engine.scheduler has no 'shedule'",
        seen="started",
        not_in_host="no optional hooks",
    ),
    hook_fault(
        "target-without-module",
        "the target names no module",
        """
        HookRegistry.register("schedule", lambda result, *args, **kwargs: "hooked")
        HookRegistry.apply_hooks()
        see("started")
        """,
        "HookTargetError",
        "'schedule' is not a hook target",
        "'pkg.mod:Class.method' or the dotted form",
    ),
    hook_fault(
        "target-with-colon",
        "the target is spelt `pkg.mod:function`",
        """
        HookRegistry.register("engine.scheduler:schedule", lambda result, *args, **kwargs: "hooked")
        HookRegistry.apply_hooks()
        from engine.scheduler import schedule
        see(schedule("batch"))
        """,
        "right",
        seen="hooked",
    ),
    hook_fault(
        "target-is-a-value",
        "the target is a number",
        """
        HookRegistry.register("engine.scheduler.LIMIT", lambda result: 16)
        HookRegistry.apply_hooks()
        import engine.scheduler
        see(f"the limit is a {type(engine.scheduler.LIMIT).__name__}")
        """,
        "HookError",
        "'LIMIT' is of type int, which cannot be called",
    ),
    hook_fault(
        "registering-imports",
        "a hook is registered and applied in a process that does not use the target",
        """
        import sys
        HookRegistry.register("engine.scheduler.schedule", lambda result, *args, **kwargs: "hooked")
        HookRegistry.apply_hooks()
        see(f"the target is {'' if 'engine.scheduler' in sys.modules else 'not '}imported")
        """,
        "right",
        seen="the target is not imported",
    ),
    hook_fault(
        "registry-imports-torch",
        "importing the hook registry, to register one hook",
        """
        import sys
        HookRegistry.register("engine.scheduler.schedule", lambda result, *args, **kwargs: "hooked")
        see(f"torch is {'' if 'torch' in sys.modules else 'not '}imported")
        """,
        "right",
        seen="torch is not imported",
    ),
]
