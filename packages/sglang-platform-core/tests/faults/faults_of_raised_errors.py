"""Faults of what `activate()` raises."""

from __future__ import annotations

from fault_definition import Fault, dev_fault, platform

__all__ = ["FAULTS"]

STR = "class Odd(Exception):\n    def __str__(self): raise RuntimeError('no words')\n"


def act(name: str, title: str, ends: str, said: str, body: str, head: str = "") -> Fault:
    """The body of `activate()`, and what stands above it."""
    return dev_fault(name, title, ends, said, distributions=(platform("dev", body, head=head),))


FAULTS = [
    act(
        "raises-str",
        "`activate()` raises an error whose `__str__` raises",
        "PluginFailed",
        "Odd: (its text cannot be had: __str__ raises RuntimeError)",
        "raise Odd",
        STR,
    ),
    act(
        "raises-repr",
        "`activate()` raises an error whose `__repr__` raises",
        "PluginFailed",
        "Odd: x",
        "raise Odd('x')",
        "class Odd(Exception):\n    def __repr__(self): raise RuntimeError('no words')\n",
    ),
    act(
        "raises-str-none",
        "`activate()` raises an error whose `__str__` gives no text",
        "PluginFailed",
        "Odd: (its text cannot be had: __str__ raises TypeError)",
        "raise Odd",
        "class Odd(Exception):\n    def __str__(self): return None\n",
    ),
    act(
        "raises-str-exits",
        "`activate()` raises an error whose `__str__` ends the process",
        "PluginFailed",
        "Odd: (its text cannot be had: __str__ raises SystemExit)",
        "raise Odd",
        "class Odd(Exception):\n    def __str__(self): raise SystemExit(3)\n",
    ),
    act(
        "raises-empty",
        "`activate()` raises an error without words",
        "PluginFailed",
        "RuntimeError:",
        "raise RuntimeError",
    ),
    act(
        "raises-lines",
        "`activate()` raises an error of several lines",
        "PluginFailed",
        "RuntimeError: first second third",
        "raise RuntimeError('first\\nsecond\\nthird')",
    ),
    act(
        "raises-generator-exit",
        "`activate()` raises GeneratorExit",
        "PluginFailed",
        "GeneratorExit:",
        "raise GeneratorExit",
    ),
    act(
        "raises-memory",
        "`activate()` raises MemoryError",
        "PluginFailed",
        "MemoryError:",
        "raise MemoryError",
    ),
    act(
        "raises-recursion",
        "`activate()` calls itself without end",
        "PluginFailed",
        "RecursionError: maximum recursion depth exceeded",
        "return activate()",
    ),
    act(
        "raises-stop",
        "`activate()` raises StopIteration",
        "PluginFailed",
        "StopIteration:",
        "raise StopIteration",
    ),
    act(
        "raises-base",
        "`activate()` raises an error that is no Exception",
        "PluginFailed",
        "Odd: stop",
        "raise Odd('stop')",
        "class Odd(BaseException): pass\n",
    ),
    act(
        "raises-in-loop",
        "`activate()` raises an error that is its own cause",
        "PluginFailed",
        "RuntimeError: loop",
        "error = RuntimeError('loop')\nerror.__context__ = error\nraise error",
    ),
    act(
        "raises-loop-of-two",
        "`activate()` raises two errors that are each other's cause",
        "PluginFailed",
        "RuntimeError: one",
        "a, b = RuntimeError('one'), OSError('two')\na.__cause__, b.__cause__ = b, a\nraise a",
    ),
]
