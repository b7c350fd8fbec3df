"""What a process must be like afterwards as it was before: one record for each thing that code may leave behind.

Read in the process itself, before and after; `changes` says in words what differs. Code that is imported or asked is
judged by it (`left_behind.py`), and so is a platform's `init_backend()` (`lifecycle.py`).
"""

from __future__ import annotations

import copyreg
import locale
import multiprocessing
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from sglang_platform.conformance.probes import process_readings as process
from sglang_platform.conformance.probes import torch_readings
from sglang_platform.conformance.probes.process_readings import AllowedUse, called

__all__ = ["SETTINGS", "TRACES", "LeftTrace", "changes", "read_all"]


class LeftTrace(NamedTuple):
    """One thing. `group` is the check that judges it, `says` what it is called there; `read()` gives plain types: a
    dict, whose entries are compared one by one, a list, of which only what was added counts, or a single value."""

    name: str
    group: str
    says: str
    read: Callable[[], Any]


def read_all(groups: Iterable[str]) -> dict[str, Any]:
    """Every trace of these groups, as it is now."""
    chosen = set(groups)
    return {trace.name: trace.read() for trace in TRACES if trace.group in chosen}


def changes(before: dict[str, Any], after: dict[str, Any]) -> dict[str, list[str]]:
    """group -> what differs, in words."""
    found: dict[str, list[str]] = {}
    for trace in TRACES:
        if trace.name in before:
            told = list(_differences(trace, before[trace.name], after[trace.name]))
            if told:
                found.setdefault(trace.group, []).extend(told)
    return found


def _differences(trace: LeftTrace, old: Any, new: Any) -> Iterable[str]:
    if isinstance(old, dict):
        for key in sorted({*old, *new}):
            if old.get(key) != new.get(key):
                says = "the lowered limit" if _lowered(old.get(key), new.get(key)) else trace.says
                yield f"{says} {key} is {new.get(key)!r}, it was {old.get(key)!r}"
    elif isinstance(old, list):
        left = list(new)
        for one in old:
            if one in left:
                left.remove(one)
        if left:
            yield f"{trace.says}: {', '.join(map(str, left))}"
    elif old != new:
        yield f"{trace.says} is {new!r}, it was {old!r}"


def _lowered(old: Any, new: Any) -> bool:
    """Of limits of the process: pairs of what holds and what may be set."""
    return isinstance(old, AllowedUse) and isinstance(new, AllowedUse) and new.holds < old.holds


TRACES: tuple[LeftTrace, ...] = (
    LeftTrace("environment", "process", "the variable", process.other_variables),
    LeftTrace("operator's environment", "process", "the operator's variable", process.operators_variables),
    LeftTrace("folder", "process", "the working directory", os.getcwd),
    LeftTrace("path", "process", "sys.path", lambda: str(sys.path)),
    LeftTrace(
        "finders",
        "process",
        "sys.meta_path",
        lambda: str([called(one if isinstance(one, type) else type(one)) for one in sys.meta_path]),
    ),
    LeftTrace(
        "path hooks", "process", "sys.path_hooks", lambda: str([called(one) for one in sys.path_hooks])
    ),
    LeftTrace("handlers", "process", "the signal handler", process.handlers),
    LeftTrace("umask", "process", "the umask", process.umask),
    LeftTrace("locale", "process", "the locale", lambda: locale.setlocale(locale.LC_ALL)),
    LeftTrace("time zone", "process", "the time zone", lambda: str(time.tzname)),
    LeftTrace("hooks", "process", "the hook", process.hooks),
    LeftTrace("interpreter", "process", "the interpreter's", process.interpreter),
    LeftTrace("collector", "process", "the garbage collector's", process.collector),
    LeftTrace("limits", "process", "the process's", process.limits),
    LeftTrace(
        "start method",
        "process",
        "the start method of multiprocessing",
        lambda: multiprocessing.get_start_method(allow_none=True),
    ),
    LeftTrace("timers", "process", "the timer", process.timers),
    LeftTrace("open files", "process", "open files are left", process.open_files),
    LeftTrace(
        "false modules",
        "process",
        "modules that nobody can import stand in sys.modules",
        process.false_modules,
    ),
    LeftTrace(
        "pickling",
        "process",
        "what pickles the class",
        lambda: {str(cls): called(function) for cls, function in copyreg.dispatch_table.items()},
    ),
    LeftTrace("random", "process", "the state of the random numbers of", process.random_states),
    LeftTrace("threads", "threads", "threads run on", lambda: [one.name for one in threading.enumerate()]),
    LeftTrace("children", "children", "child processes are left", process.children),
    LeftTrace("root logger", "logging", "the root logger's", process.root_logger),
    LeftTrace("loggers", "logging", "the logger", process.host_loggers),
    LeftTrace("warnings", "logging", "warnings are filtered by", process.filters),
    LeftTrace("shown warnings", "logging", "warnings.showwarning", lambda: called(warnings.showwarning)),
    LeftTrace("torch", "torch", "torch's", torch_readings.torch_settings),
    LeftTrace("numpy", "torch", "numpy's", torch_readings.numpy_settings),
    LeftTrace("functions", "functions", "the function", torch_readings.existing),
    LeftTrace("operators", "functions", "operators of torch are replaced", torch_readings.replaced_operators),
)
"""All of them. A new one is a line here."""

SETTINGS = (
    "torch's default",
    "torch's threads",
    "torch's gradients",
    "torch's inference",
    "torch's deterministic",
    "torch's float32 products",
    "torch's function modes",
    "torch's sharing strategy",
    "torch's denormals",
    "numpy's",
    "the operator's variable",
    "the lowered limit",
    "the process's niceness",
    "the process's processors",
    "the process's scheduling",
    "the process's session",
    "the process's process group",
    "the process's score",
    "the timer",
    "the root logger's",
    "the logger",
    "the start method",
    "the working directory",
    "the umask",
    "the locale",
    "the time zone",
    "the signal handler",
    "the hook",
    "the interpreter's",
    "the garbage collector's",
    "the state of the random numbers",
    "child processes are left",
)
"""How those of them begin that code of a platform must leave alone wherever it is: `init_backend()` is there to set
variables of its libraries, start threads and load libraries, and not these."""
