"""Faults of hooks: the hook's form, several hooks on one target, and their end."""

from __future__ import annotations

from fault_of_hook import hook_fault

__all__ = ["FAULTS"]

FORM = [
    hook_fault(
        "hook-signature",
        "a hook cannot take the target's arguments",
        """
        import engine.scheduler
        HookRegistry.register("engine.scheduler.schedule", lambda batch: None, HookType.BEFORE)
        HookRegistry.apply_hooks()
        see("started")
        engine.scheduler.schedule("batch", 2)
        """,
        "HookSignatureError",
        "it takes 1 positional arguments, but the target's make 2: no place for size",
        "1 required hook cannot be applied",
    ),
    hook_fault(
        "hook-renames-argument",
        "a hook names an argument differently than the target",
        """
        import engine.scheduler
        HookRegistry.register("engine.scheduler.schedule", lambda batch, count=1: None, HookType.BEFORE)
        HookRegistry.apply_hooks()
        see(engine.scheduler.schedule("batch", 2))
        """,
        "warning",
        "on engine.scheduler:schedule fails where an argument comes by name: size",
        seen="batch scheduled",
    ),
    hook_fault(
        "hook-not-callable",
        "the hook is a value",
        """
        HookRegistry.register("engine.scheduler.schedule", "hooked", HookType.REPLACE)
        HookRegistry.apply_hooks()
        see("started")
        """,
        "HookSignatureError",
        "The hook on engine.scheduler.schedule is not callable: 'hooked'",
    ),
    hook_fault(
        "hook-type-text",
        "the hook type is a string",
        """
        HookRegistry.register("engine.scheduler.schedule", lambda *args, **kwargs: None, "before")
        HookRegistry.apply_hooks()
        see("started")
        """,
        "HookError",
        "The hook on engine.scheduler.schedule has the type 'before'",
        "use one of HookType.BEFORE",
    ),
    hook_fault(
        "class-hook-before",
        "a class is registered as BEFORE hook",
        """
        class Mine: ...
        HookRegistry.register("engine.scheduler.schedule", Mine, HookType.BEFORE)
        """,
        "HookSignatureError",
        "The class Mine cannot be a BEFORE hook on engine.scheduler.schedule",
        "use HookType.REPLACE, or register a function",
    ),
    hook_fault(
        "class-target-after",
        "an AFTER hook is put on a class",
        """
        import engine.scheduler
        HookRegistry.register("engine.scheduler.Scheduler", lambda result, *args, **kwargs: result)
        HookRegistry.apply_hooks()
        see("started")
        """,
        "HookSignatureError",
        "the target is a class, which can only be replaced; hook one of its methods",
    ),
    hook_fault(
        "class-replaced-by-function",
        "a class is replaced by a function",
        """
        import engine.scheduler
        HookRegistry.register("engine.scheduler.Scheduler", lambda *args, **kwargs: None, HookType.REPLACE)
        HookRegistry.apply_hooks()
        see(f"Scheduler is a {type(engine.scheduler.Scheduler).__name__}")
        """,
        "HookSignatureError",
        "the target is a class, and so must be its replacement",
    ),
    hook_fault(
        "kernel-object",
        "an AFTER hook is put on a kernel that is launched as `kernel[grid](...)`",
        """
        import engine.kernels
        HookRegistry.register("engine.kernels.add", lambda result, *args, **kwargs: result)
        HookRegistry.apply_hooks()
        see(f"the kernel is a {type(engine.kernels.add).__name__}")
        """,
        "HookSignatureError",
        "the target is a Kernel, which can only be replaced",
        modules={
            "engine.kernels": """
            class Kernel:
                def __getitem__(self, grid): return self
                def __call__(self, *args): return "launched"
            add = Kernel()
            """
        },
    ),
    hook_fault(
        "async-hook-on-function",
        "an async hook is put on a function that nobody awaits",
        """
        import engine.scheduler
        async def hook(result, *args): return "hooked"
        HookRegistry.register("engine.scheduler.schedule", hook)
        HookRegistry.apply_hooks()
        result = engine.scheduler.schedule("batch")
        see(f"schedule() returns a {type(result).__name__}")
        result.close()
        """,
        "HookSignatureError",
        "the hook is async and its target is not: nobody would await it",
    ),
    hook_fault(
        "before-returns-something",
        "a BEFORE hook returns something that is not `(args, kwargs)`",
        """
        import engine.scheduler
        HookRegistry.register("engine.scheduler.schedule", lambda batch, size=1: "batch", HookType.BEFORE)
        HookRegistry.apply_hooks()
        engine.scheduler.schedule("batch")
        """,
        "HookError",
        "a BEFORE hook returns None to keep the arguments, or (args, kwargs) to change them",
        "returned 'batch'",
    ),
    hook_fault(
        "after-returns-none",
        "an AFTER hook makes the result None",
        """
        import engine.scheduler
        try:
            from framework import RETURN_NONE
        except ImportError:
            RETURN_NONE = None
        HookRegistry.register("engine.scheduler.schedule", lambda result, *args, **kwargs: RETURN_NONE)
        HookRegistry.apply_hooks()
        see(str(engine.scheduler.schedule("batch")))
        """,
        "right",
        seen="None",
    ),
]

SEVERAL = [
    hook_fault(
        "late-hook",
        "a hook is registered on a target that is hooked already",
        """
        import engine.scheduler
        HookRegistry.register("engine.scheduler.schedule", lambda result, *args, **kwargs: result + " once")
        HookRegistry.apply_hooks()
        HookRegistry.register("engine.scheduler.schedule", lambda result, *args, **kwargs: result + " twice")
        HookRegistry.apply_hooks()
        see(engine.scheduler.schedule("batch"))
        """,
        "right",
        seen="batch scheduled once twice",
    ),
    hook_fault(
        "two-replacements",
        "two REPLACE hooks on one target",
        """
        import engine.scheduler
        def first(batch, size=1): return "first"
        def last(batch, size=1): return "last"
        HookRegistry.register("engine.scheduler.schedule", first, HookType.REPLACE)
        HookRegistry.register("engine.scheduler.schedule", last, HookType.REPLACE)
        HookRegistry.apply_hooks()
        see(engine.scheduler.schedule("batch"))
        """,
        "warning",
        "engine.scheduler.schedule is replaced twice: the REPLACE hook act.last overrides the REPLACE hook act.first",
        seen="last",
    ),
    hook_fault(
        "two-replacements-two-spellings",
        "two REPLACE hooks on one function, by two names for it",
        """
        import engine.scheduler, engine.names
        def first(batch, size=1): return "first"
        def last(batch, size=1): return "last"
        HookRegistry.register("engine.names.schedule", first, HookType.REPLACE)
        HookRegistry.register("engine.scheduler.schedule", last, HookType.REPLACE)
        HookRegistry.apply_hooks()
        see(f"{engine.names.schedule('batch')} by one name, {engine.scheduler.schedule('batch')} by the other")
        """,
        "warning",
        "is replaced twice: the REPLACE hook act.last overrides the REPLACE hook act.first",
        seen="last by one name, last by the other",
        modules={"engine.names": "from engine.scheduler import schedule"},
    ),
    hook_fault(
        "method-of-a-replaced-class",
        "a hook on a method that the class's replacement defines itself",
        """
        import engine.scheduler
        class Mine(engine.scheduler.Scheduler):
            def run(self, batch): return f"mine {batch}"
        HookRegistry.register("engine.scheduler.Scheduler.run", lambda result, *args, **kwargs: result + " hooked")
        HookRegistry.register("engine.scheduler.Scheduler", Mine, HookType.REPLACE)
        HookRegistry.apply_hooks()
        see(engine.scheduler.Scheduler().run("batch"))
        """,
        "warning",
        "on top of the replacement's own method",
        "REPLACE hook act.Mine",
        seen="mine batch hooked",
    ),
    hook_fault(
        "reset",
        "`reset()` after hooks were applied",
        """
        import engine.scheduler
        HookRegistry.register("engine.scheduler.schedule", lambda result, *args, **kwargs: "hooked")
        HookRegistry.apply_hooks()
        HookRegistry.reset()
        see(engine.scheduler.schedule("batch"))
        """,
        "right",
        seen="batch scheduled",
    ),
]

FAULTS = [*FORM, *SEVERAL]
