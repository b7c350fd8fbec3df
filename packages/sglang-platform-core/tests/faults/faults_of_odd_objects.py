"""Faults of objects whose own code fails as a message is made of them: hooks, their targets and their results."""

from __future__ import annotations

from fault_definition import dev_fault, platform
from fault_of_hook import hook_fault

__all__ = ["FAULTS"]

ODD = "class Odd:\n    def __repr__(self): raise RuntimeError('no words')\n"
MODULES = {"odd": ODD + "    def __call__(self, result, batch, size=1): return 'hooked'\n"}
ODD_OBJECT = "<Odd object, whose __repr__ raises RuntimeError>"

FAULTS = [
    hook_fault(
        "hook-repr-listed",
        "a hook whose `__repr__` raises is in force and listed",
        """
        import engine.scheduler, odd
        HookRegistry.register("engine.scheduler.schedule", odd.Odd())
        HookRegistry.apply_hooks()
        see(engine.scheduler.schedule("batch"))
        """,
        "report",
        ODD_OBJECT,
        seen="hooked",
        modules=MODULES,
        not_in_host="no report of hooks",
    ),
    hook_fault(
        "hook-repr-refused",
        "a hook whose `__repr__` raises cannot be called",
        """
        class Odd:
            def __repr__(self): raise RuntimeError("no words")
        HookRegistry.register("engine.scheduler.schedule", Odd())
        HookRegistry.apply_hooks()
        """,
        "HookSignatureError",
        f"The hook on engine.scheduler.schedule is not callable: {ODD_OBJECT}",
    ),
    hook_fault(
        "target-repr",
        "the target is an object whose `__repr__` raises",
        """
        import odd
        HookRegistry.register(odd.Odd(), lambda result, *args, **kwargs: result)
        HookRegistry.apply_hooks()
        see("started")
        """,
        "HookTargetError",
        f"{ODD_OBJECT} is not a hook target",
        modules=MODULES,
    ),
    hook_fault(
        "hook-type-repr",
        "the hook type is an object whose `__repr__` raises",
        """
        import odd
        HookRegistry.register("engine.scheduler.schedule", lambda result, *args, **kwargs: result, odd.Odd())
        HookRegistry.apply_hooks()
        see("started")
        """,
        "HookError",
        f"The hook on engine.scheduler.schedule has the type {ODD_OBJECT}",
        modules=MODULES,
    ),
    hook_fault(
        "before-returns-repr",
        "a BEFORE hook returns an object whose `__repr__` raises",
        """
        import engine.scheduler, odd
        HookRegistry.register("engine.scheduler.schedule", lambda batch, size=1: odd.Odd(), HookType.BEFORE)
        HookRegistry.apply_hooks()
        engine.scheduler.schedule("batch")
        """,
        "HookError",
        f"returned {ODD_OBJECT}",
        "a BEFORE hook returns None to keep the arguments, or (args, kwargs) to change them",
        modules=MODULES,
    ),
    dev_fault(
        "answers-repr-exits",
        "`activate()` returns an object whose `__repr__` ends the process",
        "PluginFailed",
        "platform plugin 'dev' answered with the Odd <Odd object, whose __repr__ raises SystemExit>",
        distributions=(
            platform("dev", "return Odd()", head="class Odd:\n    def __repr__(self): raise SystemExit(0)\n"),
        ),
    ),
]
