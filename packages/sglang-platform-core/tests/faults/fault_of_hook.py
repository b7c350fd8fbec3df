"""The set-up that the faults of hooks share: a small engine, and the imports of a plugin."""

from __future__ import annotations

from fault_definition import Fault, module_text

__all__ = ["hook_fault", "right_hook"]

_HEAD = "from framework import HookRegistry, HookType\n"

_ENGINE = {"engine.scheduler": module_text("scheduler")}


def hook_fault(name: str, title: str, act: str, ends: str, *says: str, **rest: object) -> Fault:
    """`modules` among the rest are added to the engine; `act` is an indented text."""
    modules = {**_ENGINE, **rest.pop("modules", {})}  # type: ignore[dict-item]
    lines = act.strip("\n").split("\n")
    indent = len(lines[0]) - len(lines[0].lstrip())
    text = _HEAD + "\n".join(line[indent:] for line in lines) + "\n"
    return Fault(name, title, text, ends, says, modules=modules, **rest)  # type: ignore[arg-type]


def right_hook(name: str, title: str, act: str, seen: str, **modules: str) -> Fault:
    """A fault in SGLang that is none here. Dots in the modules' names are written as two underscores."""
    sources = {name.replace("__", "."): source for name, source in modules.items()}
    return hook_fault(name, title, act, "right", seen=seen, modules=sources)
